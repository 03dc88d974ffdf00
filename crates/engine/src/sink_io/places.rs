//! Who writes to which place, so that writers of one folder get files of their own and a file that somebody writes is
//! nobody else's. A place is free again when its last output is complete.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// The places that outputs are written to.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<PathBuf, Writers>>>);

#[derive(Default)]
struct Writers {
    /// Of the part that the next one gets.
    next: usize,
    open: usize,
}

/// A place that an output has until this is dropped.
pub(crate) struct Part {
    places: Places,
    place: PathBuf,
    number: usize,
    /// The query counts its parts itself.
    is_own: bool,
    is_complete: bool,
}

impl Places {
    /// One more writes there, and is told apart from the others by its number.
    pub fn take(&self, place: PathBuf) -> Part {
        let mut places = self.0.lock();
        let writers = places.entry(place.clone()).or_default();
        let number = writers.next;
        writers.next += 1;
        writers.open += 1;
        Part { places: self.clone(), place, number, is_own: false, is_complete: false }
    }

    /// One more writes there whose files bear its name: of its own parts it is that one.
    pub fn note(&self, place: PathBuf, number: usize) -> Part {
        self.0.lock().entry(place.clone()).or_default().open += 1;
        Part { places: self.clone(), place, number, is_own: true, is_complete: false }
    }

    /// Whether somebody writes there.
    pub fn is_written(&self, place: &Path) -> bool {
        self.0.lock().get(place).is_some_and(|writers| writers.open > 0)
    }
}

impl Part {
    /// See [`SinkEnvironment::part`](laxity_connect::SinkEnvironment::part).
    pub fn number(&self) -> usize {
        self.number
    }

    /// Lets go of the place, which holds what was written.
    pub fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The files of a folder stay beside those that come.
        let is_folder = self.place.is_dir();
        let mut places = self.places.0.lock();
        let Some(writers) = places.get_mut(&self.place) else { return };
        writers.open -= 1;
        if !self.is_complete && !self.is_own && self.number + 1 == writers.next {
            writers.next -= 1;
        }
        if writers.open == 0 && (writers.next == 0 || !is_folder) {
            places.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_free_once_its_writers_have_ended_and_a_folder_counts_on() {
        let places = Places::default();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.csv");
        let (one, other) = (places.take(file.clone()), places.take(file.clone()));
        assert_eq!((one.number(), other.number()), (0, 1));
        one.complete();
        assert!(places.is_written(&file));
        other.complete();
        assert!(!places.is_written(&file));
        assert_eq!(places.take(file).number(), 0);
        let of_folder = || places.take(folder.path().to_owned());
        of_folder().complete();
        let second = of_folder();
        assert_eq!(second.number(), 1);
        drop(second);
        assert_eq!(of_folder().number(), 1, "the last one wrote nothing");
        assert_eq!(places.0.lock().len(), 1, "of what was written, the folder alone is remembered");
    }
}
