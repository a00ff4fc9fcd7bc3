"""The work of benches/generate.rs by transformers' `generate`, on as many threads: python generate_transformers.py 2 7"""

import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

SMALL = dict(vocab_size=512, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             head_dim=32, intermediate_size=384)
MIDDLE = dict(vocab_size=512, hidden_size=256, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
              head_dim=32, intermediate_size=1024)
CASES = [("0.5 M, 256 x 30 + 16", SMALL, 256, 30, 16), ("5 M, 64 x 64 + 64", MIDDLE, 64, 64, 64)]


def main():
    threads, runs = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    print(f"{threads} threads, best of {runs} runs")
    for name, shape, sequences, prompt_tokens, new_tokens in CASES:
        config = Qwen3Config(max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=None,
                             bos_token_id=None, pad_token_id=0, **shape)
        model = Qwen3ForCausalLM(config).eval()
        prompts = torch.randint(0, 512, (sequences, prompt_tokens))
        best = float("inf")
        for _ in range(runs):
            start = time.perf_counter()
            with torch.inference_mode():
                model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=True, temperature=1.0,
                               top_k=0, top_p=1.0, max_new_tokens=new_tokens)
            best = min(best, time.perf_counter() - start)
        print(f"{name:24} {best * 1e3:7.1f} ms  {sequences * new_tokens / best:8.0f} new tokens/s")


if __name__ == "__main__":
    main()
