//! Model directories: what is read, what is refused and how it is said, what is written.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of a test or bench: a failure should stop it where it happens"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use piton_lm::{ExportDtype, HfModel, ModelConfig, export};
use piton_torch::{read_safetensors_dir, write_safetensors};
use tch::{Device, Kind, Tensor};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/lm").join(name)
}

fn load(dir: &Path) -> HfModel {
    HfModel::load(dir, Device::Cpu).unwrap()
}

#[test]
fn an_export_reads_back_equal_with_its_companions_byte_for_byte() {
    for name in ["gqa-tied", "mha-untied-bf16", "mqa-padded-sharded"] {
        let source = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(fixture(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), source.path().join(entry.file_name())).unwrap();
        }
        fs::write(source.path().join("tokenizer.json"), "{\"any\": \"bytes\"}\r\n").unwrap();
        fs::write(source.path().join("chat_template.jinja"), [0xef, 0xbb, 0xbf, b'x']).unwrap();
        let model = load(source.path());
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("hf-step-1");
        export(&model.config, &model.weights, source.path(), ExportDtype::F32, &out).unwrap();

        let names: Vec<String> = {
            let mut names: Vec<String> = fs::read_dir(&out)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let companions = ["chat_template.jinja", "config.json", "generation_config.json", "tokenizer.json"];
        assert!(names.iter().map(String::as_str).eq([
            "chat_template.jinja",
            "config.json",
            "generation_config.json",
            "model.safetensors",
            "tokenizer.json"
        ]));
        for file in companions {
            assert_eq!(
                fs::read(out.join(file)).unwrap(),
                fs::read(source.path().join(file)).unwrap(),
                "{file}"
            );
        }
        let again = load(&out);
        assert_eq!(again.config, model.config);
        assert_eq!(again.weights.tensors().len(), model.weights.tensors().len());
        for (tensor_name, tensor) in model.weights.tensors() {
            assert!(tensor.equal(&again.weights.tensors()[tensor_name]), "{tensor_name}");
        }
    }
}

#[test]
fn a_bf16_model_exported_as_configured_has_the_tensors_of_its_source() {
    let source = fixture("mha-untied-bf16");
    let model = load(&source);
    let out = tempfile::tempdir().unwrap();
    export(&model.config, &model.weights, &source, ExportDtype::Configured, out.path()).unwrap();
    let (theirs, ours) = (read_safetensors_dir(&source).unwrap(), read_safetensors_dir(out.path()).unwrap());
    assert_eq!(ours.metadata["format"], "pt");
    for (name, tensor) in &theirs.tensors {
        assert_eq!(ours.tensors[name].kind(), Kind::BFloat16);
        assert!(tensor.equal(&ours.tensors[name]), "{name}");
    }
}

#[test]
fn every_tensor_at_fault_is_named_with_expected_and_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(fixture("gqa-tied/config.json"), dir.path().join("config.json")).unwrap();
    let mut tensors = read_safetensors_dir(&fixture("gqa-tied")).unwrap().tensors;
    tensors.remove("model.norm.weight");
    tensors.insert(
        "model.layers.1.mlp.up_proj.weight".to_owned(),
        Tensor::zeros([40, 25], (Kind::Float, Device::Cpu)),
    );
    tensors.insert(
        "model.layers.0.self_attn.q_proj.bias".to_owned(),
        Tensor::zeros([32], (Kind::Float, Device::Cpu)),
    );
    tensors.insert(
        "model.layers.0.self_attn.k_norm.weight".to_owned(),
        Tensor::zeros([8], (Kind::Int64, Device::Cpu)),
    );
    let mut bytes = Vec::new();
    write_safetensors(&tensors, &BTreeMap::new(), &mut bytes).unwrap();
    fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    let error = HfModel::load(dir.path(), Device::Cpu).unwrap_err().to_string();
    assert_eq!(
        error.replace(&dir.path().display().to_string(), "DIR"),
        "DIR: the weights do not fit the configuration:\n  \
         model.layers.0.self_attn.k_norm.weight is Int64, expected Float (f32)\n  \
         mis-shaped model.layers.1.mlp.up_proj.weight: expected [40, 24], found [40, 25]\n  \
         missing model.norm.weight: expected shape [24]\n  \
         unexpected model.layers.0.self_attn.q_proj.bias of shape [32]"
    );
}

#[test]
fn a_directory_without_weights_is_refused_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let error = HfModel::load(dir.path(), Device::Cpu).unwrap_err().to_string();
    assert!(error.starts_with(&format!("read {}/config.json: ", dir.path().display())), "{error}");
    fs::copy(fixture("gqa-tied/config.json"), dir.path().join("config.json")).unwrap();
    let error = HfModel::load(dir.path(), Device::Cpu).unwrap_err().to_string();
    assert!(error.starts_with(&format!("read {}/model.safetensors: ", dir.path().display())), "{error}");
}

/// The fixture's configuration with some keys replaced; an empty value removes the key.
fn config_with(changes: &[(&str, &str)]) -> piton_lm::Result<ModelConfig> {
    let text = fs::read_to_string(fixture("gqa-tied/config.json")).unwrap();
    let mut root: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    for (key, value) in changes {
        if value.is_empty() {
            root.remove(*key);
        } else {
            root.insert((*key).to_owned(), serde_json::from_str(value).unwrap());
        }
    }
    ModelConfig::from_json(&serde_json::to_string(&root).unwrap())
}

#[test]
fn configurations_that_would_be_computed_wrongly_are_refused() {
    let refuse = |changes: &[(&str, &str)]| config_with(changes).unwrap_err().to_string();
    assert_eq!(
        refuse(&[("architectures", r#"["GPT2LMHeadModel"]"#)]),
        "unsupported model configuration: architectures is \"GPT2LMHeadModel\"; supported: LlamaForCausalLM, \
         Qwen2ForCausalLM, Qwen3ForCausalLM"
    );
    assert_eq!(
        refuse(&[("use_sliding_window", "true"), ("rope_interleaved", "true"), ("hidden_act", "\"gelu\""),]),
        "unsupported model configuration: use_sliding_window is true, only false is computed; hidden_act is \"gelu\", only \
         \"silu\" is computed; rope_interleaved is true, only false is computed"
    );
    assert_eq!(
        refuse(&[("rope_parameters", r#"{"rope_theta":1e4,"rope_type":"yarn"}"#)]),
        "config.json: rope_parameters.rope_type is \"yarn\", computed are default, linear and llama3"
    );
    assert_eq!(
        refuse(&[(
            "rope_parameters",
            r#"{"rope_type":"llama3","factor":8,"low_freq_factor":0,"beta_fast":1}"#
        )]),
        "config.json: rope_parameters.low_freq_factor is 0, expected a positive number; rope_parameters.high_freq_factor is \
         absent, expected a positive number; rope_parameters.original_max_position_embeddings is absent, expected a positive \
         number; rope_parameters.beta_fast is 1, which the rotary embedding here has no use for"
    );
    assert_eq!(
        refuse(&[("rope_scaling", r#"{"type":"linear","factor":2}"#)]),
        "config.json: rope_parameters and rope_scaling contradict each other"
    );
    assert_eq!(
        refuse(&[
            ("vocab_size", ""),
            ("hidden_size", "0"),
            ("num_hidden_layers", "\"two\""),
            ("head_dim", "7")
        ]),
        "config.json: hidden_size is 0, expected a positive integer; vocab_size is absent, expected a positive integer; \
         num_hidden_layers is \"two\", expected a positive integer; head_dim is 7, which rotary embedding cannot halve"
    );
    assert_eq!(
        refuse(&[("num_key_value_heads", "3")]),
        "config.json: num_attention_heads (4) is not a multiple of num_key_value_heads (3)"
    );
}

#[test]
fn configurations_of_transformers_4_are_read_too() {
    let config = config_with(&[
        ("rope_parameters", ""),
        ("rope_theta", "5e5"),
        ("rope_scaling", "null"),
        ("dtype", ""),
        ("torch_dtype", "\"bfloat16\""),
        ("eos_token_id", "[3, 4]"),
        ("layer_types", ""),
    ])
    .unwrap();
    assert_eq!((config.rope_theta, config.dtype().unwrap()), (5e5, Kind::BFloat16));
    assert_eq!(config.eos_token_ids, [3, 4]);
}

#[test]
fn a_tokenizer_may_be_smaller_than_the_model_and_not_larger() {
    let config = ModelConfig::read(&fixture("gqa-tied/config.json")).unwrap();
    for producible in [0, 1, 36, 37] {
        config.check_tokenizer(producible).unwrap();
    }
    assert_eq!(
        config.check_tokenizer(38).unwrap_err().to_string(),
        "the tokenizer can produce ids up to 37, but the model has 37 embedding rows (ids 0 to 36); use the tokenizer the \
         model was made with, or a model with vocab_size of at least 38"
    );
}
