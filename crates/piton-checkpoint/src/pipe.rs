//! Writing beside the thread that fills and hashes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::buffer::{Buffer, Pool};
use crate::error::Error;
use crate::file::FileHandle;

/// Buffers on their way to the disk at most: one being written, the next ready, one being filled.
pub(crate) const MAX_IN_FLIGHT: usize = 3;

/// A thread that writes buffers in order, and what it has not said yet.
#[derive(Debug)]
pub(crate) struct Pipe {
    jobs: Option<Sender<Job>>,
    done: Receiver<(Buffer, Result<(), Error>)>,
    thread: Option<JoinHandle<()>>,
    pool: Arc<Pool>,
    in_flight: usize,
    failed: Option<Error>,
}

#[derive(Debug)]
struct Job {
    file: Arc<FileHandle>,
    offset: u64,
    buffer: Buffer,
}

impl Pipe {
    /// Starts the thread.
    pub(crate) fn start(pool: Arc<Pool>) -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, done) = channel();
        let of_thread = Arc::clone(&pool);
        let write = move || {
            for Job { file, offset, buffer } in inbox {
                let written = file.write_at(buffer.bytes(), offset, &of_thread);
                if outbox.send((buffer, written)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("checkpoint-write".to_owned()).spawn(write)?;
        Ok(Self { jobs: Some(jobs), done, thread: Some(thread), pool, in_flight: 0, failed: None })
    }

    /// Hands a buffer over; waits while too many are on their way.
    pub(crate) fn send(&mut self, file: &Arc<FileHandle>, offset: u64, buffer: Buffer) -> Result<(), Error> {
        while self.in_flight >= MAX_IN_FLIGHT {
            self.receive();
        }
        if let Some(failed) = self.failed.take() {
            self.pool.give(buffer);
            return Err(failed);
        }
        if let Some(jobs) = &self.jobs
            && jobs.send(Job { file: Arc::clone(file), offset, buffer }).is_ok()
        {
            self.in_flight += 1;
        }
        Ok(())
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// The first error since the last call.
    pub(crate) fn drain(&mut self) -> Result<(), Error> {
        while self.in_flight > 0 {
            self.receive();
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn receive(&mut self) {
        match self.done.recv() {
            Ok((buffer, written)) => {
                self.in_flight -= 1;
                self.pool.give(buffer);
                if let Err(error) = written {
                    self.failed.get_or_insert(error);
                }
            }
            // the thread ends only with its inbox, or by a panic of a hook
            Err(_) => {
                self.in_flight = 0;
                self.failed.get_or_insert(Error::WriterPanicked);
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _panicked_was_said = thread.join();
        }
    }
}
