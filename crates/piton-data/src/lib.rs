//! JSONL rows, chat templates, tokenisation and a sampler whose state is an absolute position.
