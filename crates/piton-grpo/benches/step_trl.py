"""The work of benches/step.rs by TRL's GRPOTrainer: python step_trl.py THREADS STEPS [CASE]

Same shapes, prompts, group sizes, lengths and thread count; f32 on the CPU, one optimizer step a batch, no KL term.
Gradient checkpointing and bf16, which TRL turns on by default, are off: both would slow it down here. Needs
torch 2.13.0, transformers 5.24.0, trl 1.16.0. One line of JSON a case; figures are medians over steps.
"""

import time

START = time.perf_counter()

import json
import logging
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import warnings

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "fixtures"
SMALL = FIXTURES / "models" / "chain-sum"
SAMPLES = 8
TERMS = 28
# name: (prompts, new tokens, at least)
CASES = {"small-8": (32, 8, 0), "small-64": (32, 64, 64), "middle-64": (8, 64, 64)}


def main():
    threads, steps = int(sys.argv[1]), int(sys.argv[2])
    names = sys.argv[3:] or list(CASES)
    if len(names) > 1:
        for name in names:  # a process each, as in step.rs
            subprocess.run([sys.executable, __file__, str(threads), str(steps), name], check=True)
        return
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(names[0], threads, steps, directory)), flush=True)


def measure(name, threads, steps, directory):
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    warnings.filterwarnings("ignore")
    import torch
    from datasets import Dataset, disable_progress_bars
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
    from transformers.utils import logging as transformers_logging
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(threads)
    logging.disable(logging.WARNING)
    disable_progress_bars()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    prompts, new_tokens, min_new_tokens = CASES[name]
    tokenizer = AutoTokenizer.from_pretrained(SMALL, padding_side="left")
    if name == "middle-64":
        model = Qwen3ForCausalLM(Qwen3Config(
            vocab_size=512, hidden_size=256, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
            head_dim=32, intermediate_size=1024, max_position_embeddings=256, tie_word_embeddings=True,
            eos_token_id=324, pad_token_id=322, bos_token_id=None))
        rows = [long_sum(index) for index in range(256)]
    else:
        model = Qwen3ForCausalLM.from_pretrained(SMALL, dtype=torch.float32)
        lines = (FIXTURES / "prompts/chain_sum/train.jsonl").read_text().splitlines()
        rows = [(row["prompt"], row["reward_model"]["ground_truth"]) for row in map(json.loads, lines)]
    dataset = Dataset.from_list([{"prompt": prompt, "ground_truth": truth} for prompt, truth in rows])

    def exact(completions, ground_truth, **_):
        return [float(completion[0]["content"].strip() == truth) for completion, truth in zip(completions, ground_truth)]

    config = GRPOConfig(
        output_dir=directory, use_cpu=True, bf16=False, gradient_checkpointing=False,
        per_device_train_batch_size=prompts * SAMPLES, num_generations=SAMPLES, max_steps=steps + 1,
        max_completion_length=new_tokens, temperature=1.0, top_p=1.0, top_k=0, beta=0.0, learning_rate=1e-5,
        generation_kwargs={"min_new_tokens": min_new_tokens} if min_new_tokens else None,
        logging_steps=10**9, save_strategy="no", report_to="none", disable_tqdm=True, dataloader_pin_memory=False)
    marks, rollouts = [], []

    class Marks(TrainerCallback):
        def on_train_begin(self, *_, **__):
            marks.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            marks.append(time.perf_counter())

    trainer = GRPOTrainer(model=model, reward_funcs=exact, args=config, train_dataset=dataset,
                          processing_class=tokenizer, callbacks=[Marks()])
    inner = trainer._generate_and_score_completions

    def timed(inputs):
        begin = time.perf_counter()
        output = inner(inputs)
        seconds = time.perf_counter() - begin
        new, old = (int(output[key].sum()) for key in ("completion_mask", "prompt_mask"))
        rollouts.append((seconds, new, new + old - len(inputs)))
        return output

    trainer._generate_and_score_completions = timed
    with open(os.devnull, "w") as nowhere:
        shown, sys.stdout = sys.stdout, nowhere  # the trainer prints its last log
        trainer.train()
        sys.stdout = shown
    whole = [after - before for before, after in zip(marks, marks[1:])]
    assert len(whole) == len(rollouts) == steps + 1
    training = [step - rollout[0] for step, rollout in zip(whole, rollouts)]
    begin = time.perf_counter()
    trainer._save_checkpoint(trainer.model, trial=None)
    save_s = time.perf_counter() - begin
    saved = [path for path in pathlib.Path(directory).rglob("*") if path.is_file()]

    def median(values):
        return statistics.median(list(values)[1:])  # the first step also warms up

    return {
        "case": name, "by": "trl", "threads": threads, "steps": steps,
        "step_s": median(whole), "first_step_s": whole[0],
        "rollout_s": median(rollout[0] for rollout in rollouts), "training_s": median(training),
        "rollout_tokens_per_s": median(rollout[1] / rollout[0] for rollout in rollouts),
        "training_tokens_per_s": median(rollout[2] / step for rollout, step in zip(rollouts, training)),
        "mean_response_tokens": median(rollout[1] / (prompts * SAMPLES) for rollout in rollouts),
        "save_s": save_s, "checkpoint_bytes": sum(path.stat().st_size for path in saved),
        "start_s": marks[0] - START,
        "plain_update_s": plain_update(torch, model, tokenizer, rows, prompts * SAMPLES, new_tokens),
    }


def plain_update(torch, model, tokenizer, rows, samples, new_tokens):
    """Seconds of forward, backward and AdamW alone on a batch of this size, as one would write it by hand."""
    longest = max(len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True)["input_ids"])
                  for prompt, _ in rows[:64])
    ids = torch.randint(0, 300, (samples, longest + new_tokens))
    advantages = torch.randn(samples, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0, fused=True)
    model.train()

    def update():
        logits = model(ids, logits_to_keep=new_tokens + 1, use_cache=False).logits[:, :-1]
        chosen = logits.gather(2, ids[:, longest:, None])[..., 0] - logits.logsumexp(-1)
        ratio = (chosen - chosen.detach()).exp()
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    times = []
    for _ in range(4):
        begin = time.perf_counter()
        update()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def long_sum(index):
    digits = [(index * 7 + at * 3 + index * at) % 10 for at in range(TERMS)]
    content = "State the final answer to the following arithmetic problem: " + " + ".join(map(str, digits))
    return [{"role": "user", "content": content}], str(sum(digits))


if __name__ == "__main__":
    main()
