//! Decoder language models: Hugging Face import and export, training forward, batched generation.
