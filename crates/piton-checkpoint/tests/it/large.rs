//! Large files go past the page cache: the same bytes, whatever the size and the file system.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use piton_checkpoint::{Error, FileHook, Op, Overwrite, SaveError, Store, Verdict};

use crate::support::{in_memory, open, options, read};

const MIB: usize = 1 << 20;

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect()
}

/// Refuses direct writing, or takes the flag and refuses the writes; counts what it saw.
#[derive(Debug, Default)]
struct Refuse {
    flag: bool,
    write: bool,
    direct: Mutex<bool>,
    direct_writes: AtomicUsize,
}

impl FileHook for Refuse {
    fn before(&self, op: Op, _path: &Path) -> Verdict {
        let mut direct = self.direct.lock().unwrap();
        match op {
            Op::Direct if self.flag => Verdict::Fail(22),
            Op::Direct => {
                *direct = !*direct;
                Verdict::Go
            }
            Op::Write if *direct => {
                self.direct_writes.fetch_add(1, Ordering::Relaxed);
                if self.write { Verdict::Fail(22) } else { Verdict::Go }
            }
            _ => Verdict::Go,
        }
    }
}

fn round_trip(root: &Path, hook: &Arc<Refuse>) {
    let mut store = Store::open(root, options().hook(hook.clone())).unwrap();
    let around =
        [MIB, 4 * MIB, 8 * MIB, 17 * MIB].map(|size| [size - 1, size, size + 1, size + 4096, size - 512]);
    let sizes: Vec<usize> = [0, 1, 511, 4097].into_iter().chain(around.into_iter().flatten()).collect();
    let saved = store.save(1, Overwrite::Refuse, |stage| {
        for &size in &sizes {
            stage.write(&format!("{size}"), &bytes(size))?;
        }
        Ok::<(), piton_checkpoint::Error>(())
    });
    saved.unwrap();
    let found = read(root).at(1).unwrap();
    for size in sizes {
        let whole = found.read(&format!("{size}")).unwrap();
        assert!(whole == bytes(size), "{size} bytes are not what was written");
        assert_eq!(
            found.manifest().file(&format!("{size}")).unwrap().blake3,
            blake3::hash(&whole).to_string()
        );
    }
}

#[test]
fn files_of_every_size_come_back() {
    for in_memory_too in [false, true] {
        let temp = if in_memory_too { in_memory() } else { tempfile::tempdir().unwrap() };
        let hook = Arc::new(Refuse::default());
        round_trip(temp.path(), &hook);
        assert!(hook.direct_writes.load(Ordering::Relaxed) > 20, "large files are written directly");
    }
}

#[test]
fn a_file_system_without_direct_writing_gets_the_same_bytes() {
    for (flag, write) in [(true, false), (false, true)] {
        let temp = in_memory();
        round_trip(temp.path(), &Arc::new(Refuse { flag, write, ..Refuse::default() }));
    }
}

#[test]
fn a_file_that_did_not_change_is_linked_from_the_parent() {
    use std::os::unix::fs::MetadataExt;
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let fill = |stage: &mut piton_checkpoint::Stage| {
        stage.write("replay/seg-1", &bytes(5 * MIB))?;
        stage.write("replay/tail", b"old")
    };
    let parent = store.save(1, Overwrite::Refuse, fill).unwrap();
    let child = store.save(2, Overwrite::Refuse, |stage| {
        stage.link_from(&parent, "replay/seg-1")?;
        stage.write("replay/tail", b"new")
    });
    let child = child.unwrap();
    let inode = |dir: &Path| std::fs::metadata(dir.join("replay/seg-1")).unwrap().ino();
    assert_eq!(inode(parent.path()), inode(child.path()));
    assert_eq!(parent.manifest().file("replay/seg-1"), child.manifest().file("replay/seg-1"));
    store.prune(crate::support::last(1), &crate::support::no_pins()).unwrap();
    let child = read(temp.path()).latest().unwrap().unwrap();
    assert!(child.read("replay/seg-1").unwrap() == bytes(5 * MIB), "it outlives its parent");

    let missing = store.save(3, Overwrite::Refuse, |stage| stage.link_from(&child, "replay/seg-2"));
    assert!(missing.unwrap_err().to_string().contains("seg-2"));
}

/// Damage that is there when a file is linked is found when the child is loaded.
#[test]
fn a_linked_file_is_checked_like_any_other() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path());
    let parent = store.save(1, Overwrite::Refuse, |stage| stage.write("seg", &bytes(9000))).unwrap();
    let mut damaged = bytes(9000);
    damaged[77] ^= 1;
    std::fs::write(parent.path().join("seg"), damaged).unwrap();
    let child = store.save(2, Overwrite::Refuse, |stage| stage.link_from(&parent, "seg")).unwrap();
    assert!(child.read("seg").is_err());
    std::fs::write(parent.path().join("seg"), b"short").unwrap();
    assert!(store.save(3, Overwrite::Refuse, |stage| stage.link_from(&parent, "seg")).is_err());
}

/// Refuses hard links, as some file systems do.
#[derive(Debug)]
struct NoLinks;

impl FileHook for NoLinks {
    fn before(&self, op: Op, _path: &Path) -> Verdict {
        if op == Op::Link { Verdict::Fail(1) } else { Verdict::Go }
    }
}

#[test]
fn where_links_are_refused_a_copy_is_made_and_damage_is_not_copied() {
    for size in [9000, 5 * MIB] {
        let temp = in_memory();
        let mut store = Store::open(temp.path(), options().hook(Arc::new(NoLinks))).unwrap();
        let parent = store.save(1, Overwrite::Refuse, |stage| stage.write("seg", &bytes(size))).unwrap();
        let child = store.save(2, Overwrite::Refuse, |stage| stage.link_from(&parent, "seg")).unwrap();
        assert_eq!(parent.manifest().files, child.manifest().files);
        assert!(child.read("seg").unwrap() == bytes(size));

        let mut damaged = bytes(size);
        damaged[size - 7] ^= 1;
        std::fs::write(child.path().join("seg"), damaged).unwrap();
        let saved = store.save(3, Overwrite::Refuse, |stage| stage.link_from(&child, "seg"));
        let Err(SaveError::Content(Error::Corrupt { step: 2, path, .. })) = saved else {
            panic!("{saved:?}")
        };
        assert!(path.ends_with("seg"), "{}", path.display());
        assert_eq!(read(temp.path()).steps().unwrap(), [1, 2]);
    }
}
