//! Hugging Face model directories, in and out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use piton_torch::{read_safetensors_dir, write_safetensors};
use tch::{Device, Kind, Tensor};

use crate::{Error, ModelConfig, Result, Weights};

/// Files that an export copies byte for byte, where the source has them.
const COMPANIONS: [&str; 8] = [
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
];

/// A model as its directory describes it.
#[derive(Debug)]
pub struct HfModel {
    /// From `config.json`.
    pub config: ModelConfig,
    /// From `model.safetensors` or its shards, as f32.
    pub weights: Weights,
}

impl HfModel {
    /// Loads a directory's configuration and weights onto `device`.
    ///
    /// Files in f32, bf16 and f16 become f32, which holds each of their values exactly. A `lm_head.weight` in the
    /// file of a tied model is dropped, as transformers does.
    ///
    /// # Errors
    /// When a file is missing or damaged, or tensors are missing, unexpected or mis-shaped: all are named.
    pub fn load(dir: &Path, device: Device) -> Result<Self> {
        let config = ModelConfig::read(&dir.join("config.json"))?;
        let mut tensors = read_safetensors_dir(dir)?.tensors;
        if config.tie_word_embeddings {
            tensors.remove("lm_head.weight");
        }
        for tensor in tensors.values_mut() {
            if matches!(tensor.f_kind()?, Kind::BFloat16 | Kind::Half) {
                *tensor = tensor.f_to_kind(Kind::Float)?;
            }
            *tensor = tensor.f_to_device(device)?;
        }
        let weights = Weights::new(&config, tensors, &dir.display().to_string())?;
        Ok(Self { config, weights })
    }
}

/// In which dtype the tensors of an export are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportDtype {
    /// f32: nothing is lost, and [`HfModel::load`] gives equal tensors back.
    #[default]
    F32,
    /// The `dtype` (or `torch_dtype`) of `config.json`, f32 when it names none: rounded, and as small as the source.
    Configured,
}

/// Writes a model directory that transformers loads, file by file through `create`.
///
/// `create` is called with each file's name and must return where its bytes go: a folder's file, or a checkpoint's
/// stage. Written are `config.json` as it was read, `model.safetensors`, and byte-equal copies of the tokenizer,
/// template and generation files that `source` has. transformers 5 loads in the dtype that `config.json` names:
/// an f32 export of a bf16 model is rounded there unless the caller asks for `dtype=torch.float32`.
///
/// # Errors
/// When a companion cannot be read, a file cannot be written, or `config.json` names a dtype that is not
/// float32, bfloat16 or float16 and that dtype is asked for.
pub fn export_with<W: Write>(
    config: &ModelConfig,
    weights: &Weights,
    source: &Path,
    dtype: ExportDtype,
    mut create: impl FnMut(&str) -> std::io::Result<W>,
) -> Result<()> {
    let rounded = match dtype {
        ExportDtype::F32 => None,
        ExportDtype::Configured => Some(convert(weights.tensors(), config.dtype()?)?),
    };
    let tensors = rounded.as_ref().unwrap_or(weights.tensors());
    let mut file = |name: &str, write: &mut dyn FnMut(&mut W) -> Result<()>| {
        let mut out = create(name).map_err(Error::io("create", name))?;
        write(&mut out)?;
        out.flush().map_err(Error::io("write", name))
    };
    file("config.json", &mut |out| {
        out.write_all(config.raw().as_bytes()).map_err(Error::io("write", "config.json"))
    })?;
    // transformers reads the key "format" to learn that the file comes from PyTorch's side
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    file("model.safetensors", &mut |out| Ok(write_safetensors(tensors, &metadata, out)?))?;
    for name in COMPANIONS {
        let path = source.join(name);
        if path.is_file() {
            let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
            file(name, &mut |out| out.write_all(&bytes).map_err(Error::io("write", name)))?;
        }
    }
    Ok(())
}

/// Writes a model directory at `out`, which is made if needed; see [`export_with`].
///
/// # Errors
/// As [`export_with`]. Files are not synced and nothing is renamed: stage an export that must survive a crash.
pub fn export(
    config: &ModelConfig,
    weights: &Weights,
    source: &Path,
    dtype: ExportDtype,
    out: &Path,
) -> Result<()> {
    fs::create_dir_all(out).map_err(Error::io("create", out))?;
    export_with(config, weights, source, dtype, |name| File::create(out.join(name)).map(BufWriter::new))
}

fn convert(tensors: &BTreeMap<String, Tensor>, kind: Kind) -> Result<BTreeMap<String, Tensor>> {
    tensors.iter().map(|(name, tensor)| Ok((name.clone(), tensor.f_detach()?.f_to_kind(kind)?))).collect()
}
