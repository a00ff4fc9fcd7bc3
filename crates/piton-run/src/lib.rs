//! The run around a training job: directory, lock, stop signals, trackers, events, environment record.
