//! The writer's side of archive pairs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::damage::PairDamage;
use super::name::{self, Base, PairId};
use super::reader::{Archive, ArchiveReader, examine};
use super::replace::{self, New, Published};
use super::sidecar;
use super::sink::ArchiveFile;
use crate::buffer::Pool;
use crate::dir::Dir;
use crate::error::{Error, SaveError};
use crate::hook::FileHook;
use crate::lock::{self, WriterLock};
use crate::save::Overwrite;

/// The archive pairs of one name in one directory, opened for writing. One writer at a time, over all processes.
///
/// A pair is `<stem>.zip`, whose bytes the caller makes, and `<stem>.json`, which holds the caller's metadata and the
/// zip's SHA-256. Whoever sees the zip sees its JSON.
///
/// ```
/// use std::num::NonZeroUsize;
/// use piton_checkpoint::{ArchiveOptions, Archives, Overwrite, PairId, StoredZip};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let temp = tempfile::tempdir()?;
/// # let dir = temp.path().join("checkpoints");
/// let mut archives = Archives::open(&dir, "q3", ArchiveOptions::default())?;
/// for timesteps in [64, 128, 192] {
///     let metadata = serde_json::json!({ "checkpoint": true, "checkpoint_timesteps": timesteps });
///     let metadata = metadata.as_object().ok_or("an object")?;
///     archives.save(PairId::Number(timesteps), Overwrite::Refuse, metadata, |file| {
///         let mut zip = StoredZip::new(file);
///         zip.add("data", format!("{{\"num_timesteps\": {timesteps}}}").as_bytes())?;
///         zip.finish().map(drop)
///     })?;
/// }
/// let two = NonZeroUsize::new(2).ok_or("not zero")?;
/// assert_eq!(archives.prune(two)?, ["q3_ckpt_000000064"]);
/// let latest = archives.reader().latest()?.ok_or("two are left")?; // every byte was checked
/// assert_eq!(latest.metadata()["checkpoint_timesteps"], 192);
/// assert_eq!(latest.metadata()["model_sha256"], latest.sha256());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Archives {
    pub(crate) reader: ArchiveReader,
    /// Stems of pairs that this process saved or read in full.
    pub(crate) sure: BTreeSet<String>,
    /// The last save may not survive a power cut.
    pub(crate) uncertain: bool,
    pool: Arc<Pool>,
    problems: Vec<Error>,
    serial: u64,
    _lock: WriterLock,
}

/// What a writer of archives tells about itself.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ArchiveOptions {
    /// Who holds the lock, told to those who find it taken. The process id is added.
    pub holder: String,
    /// Sees every system call; for tests.
    pub hook: Option<Arc<dyn FileHook>>,
}

impl ArchiveOptions {
    /// Sets what others are told about the lock's holder.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = holder.into();
        self
    }

    /// Sets the hook.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn FileHook>) -> Self {
        self.hook = Some(hook);
        self
    }
}

impl Archives {
    /// Opens the pairs of `name` in `dir`, making the directory if need be, and cleans up what an interrupted save left.
    /// Other files, and pairs of other names, are left alone.
    ///
    /// # Errors
    /// [`Error::ArchiveName`], [`Error::Locked`], [`Error::NotWritable`], or what the system said.
    pub fn open(dir: impl AsRef<Path>, name: &str, options: ArchiveOptions) -> Result<Self, Error> {
        let base = Base::new(name)?;
        let dir = lock::make_root(dir.as_ref(), &options.hook)?;
        let _lock =
            WriterLock::take_named(&dir, &base.lock(), &format!("archives {name}, "), &options.holder)
                .map_err(|error| lock::explain_access(&dir, error))?;
        let mut this = Self {
            reader: ArchiveReader { dir: Arc::new(dir), base },
            sure: BTreeSet::new(),
            uncertain: false,
            pool: Arc::default(),
            problems: Vec::new(),
            serial: 0,
            _lock,
        };
        this.sweep()?;
        Ok(this)
    }

    /// Opens the pairs of `name` in `dir` to read. Takes no lock and changes nothing.
    ///
    /// # Errors
    /// [`Error::ArchiveName`], or when `dir` is not a directory that can be opened.
    pub fn open_read_only(dir: impl AsRef<Path>, name: &str) -> Result<ArchiveReader, Error> {
        let base = Base::new(name)?;
        Ok(ArchiveReader { dir: Arc::new(Dir::open(dir.as_ref(), None)?), base })
    }

    /// The reading side.
    pub fn reader(&self) -> &ArchiveReader {
        &self.reader
    }

    /// The newest valid numbered pair; see [`ArchiveReader::latest`].
    ///
    /// # Errors
    /// See [`ArchiveReader::latest`].
    pub fn latest(&self) -> Result<Option<Archive>, Error> {
        self.reader.latest()
    }

    /// Saves a pair durably and gives the path of its zip. `fill` writes the bytes of the zip, with [`StoredZip`] or any
    /// writer that needs no seeking.
    ///
    /// The JSON holds `metadata`, sorted by name, and four members that replace any of the same name: `model_sha256` and
    /// `model_size` of the zip, `pair_format` (1), and `metadata_sha256`, the SHA-256 of the JSON with this member's
    /// digits all `0`. A damaged pair of the same name is replaced; a valid one, a zip without JSON, and a pair of a later
    /// format only with [`Overwrite::Exchange`]. While it is being replaced, its JSON stays as `.<stem>.prev.json`, so that
    /// a reader gets either the old pair or the new.
    ///
    /// [`StoredZip`]: crate::StoredZip
    ///
    /// # Errors
    /// [`SaveError::Content`] with `fill`'s own error; [`Error::ArchiveExists`] or [`Error::ArchiveRejected`] when what
    /// stands there is not replaced; [`Error::ArchiveUncertain`] when the pair is there and may not survive a power cut; otherwise what the system said, and then the pairs are as before.
    pub fn save<E>(
        &mut self,
        id: PairId,
        overwrite: Overwrite,
        metadata: &Map<String, Value>,
        fill: impl FnOnce(&mut ArchiveFile) -> Result<(), E>,
    ) -> Result<PathBuf, SaveError<E>> {
        let stem = self.reader.base.stem(id);
        let dir = Arc::clone(&self.reader.dir);
        replace::settle(&dir, &stem)?;
        if overwrite == Overwrite::Refuse {
            refuse_valid(&dir, &stem)?;
        }
        let [zip, json, spare] = [self.temporary(), self.temporary(), self.temporary()];
        let sweep = Sweep { dir: &dir, names: [&zip, &json] };

        let mut file = ArchiveFile::new(dir.create_file(&zip)?, &self.pool);
        if let Err(content) = fill(&mut file) {
            // A failed write loses path and operation on its way through the caller; keep ours.
            return Err(file.take_failed().map_or(SaveError::Content(content), SaveError::Store));
        }
        let (sha256, size) = file.finish()?;
        let failed = |source| Error::Json { name: name::json(&stem), source };
        let bytes = sidecar::write(metadata, &sha256, size).map_err(failed)?;
        let file = dir.create_file(&json)?;
        file.write_all(&bytes)?;
        file.sync()?;
        drop(file);

        let path = dir.path().join(name::zip(&stem));
        let published = replace::publish(&dir, &stem, &New { zip: &zip, json: &json, spare: &spare })?;
        // both have their names
        std::mem::forget(sweep);
        match published {
            Published::Durable => {
                self.uncertain = false;
                self.sure.insert(stem);
                Ok(path)
            }
            Published::Uncertain(source) => {
                self.uncertain = true;
                Err(Error::ArchiveUncertain { path, source: Box::new(source) }.into())
            }
        }
    }

    /// Takes what could not be cleaned up when the pairs were opened. Harmless: the next open tries again.
    pub fn take_problems(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.problems)
    }

    fn temporary(&mut self) -> String {
        self.serial += 1;
        self.reader.base.temporary(std::process::id(), self.serial)
    }

    /// Removes temporary files and ends interrupted replacements. The lock proves that no live writer owns them.
    fn sweep(&mut self) -> Result<(), Error> {
        let ArchiveReader { dir, base } = &self.reader;
        for name in dir.list()? {
            if base.is_temporary(&name) {
                self.problems.extend(dir.remove_file(&name).err());
            } else if let Some(stem) = base.parse_former(&name) {
                self.problems.extend(replace::settle(dir, &stem).err());
            }
        }
        Ok(())
    }
}

/// Only a pair that is surely damaged is replaced without being asked: one that cannot be read now may be whole, a zip
/// without JSON is another program's (no save leaves one), and a later version knows what it wrote.
fn refuse_valid(dir: &Dir, stem: &str) -> Result<(), Error> {
    match examine(dir, stem, None)? {
        Some(Ok(archive)) => Err(Error::ArchiveExists { path: archive.path().to_owned() }),
        Some(Err(rejected)) => match rejected.reason {
            PairDamage::Unreadable(_) | PairDamage::NoJson | PairDamage::Version { .. } => {
                Err(Error::ArchiveRejected { rejected: Box::new(rejected) })
            }
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// Removes what is left of a save that failed or panicked.
struct Sweep<'a> {
    dir: &'a Dir,
    names: [&'a str; 2],
}

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        for name in self.names {
            // Gone when the save succeeded; what stays is swept by the next open.
            drop(replace::remove(self.dir, name));
        }
    }
}
