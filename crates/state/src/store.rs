//! What a store of objects has to do, as S3 is one, to have a copy of all checkpoints.

use std::fmt::Debug;
use std::path::Path;

/// Objects by name. Names have slashes between their parts, and no part is `.` or `..`.
///
/// Each is there whole or not at all, and seen by everybody as soon as it is.
pub trait ObjectStore: Debug + Send + Sync {
    /// Where it is, without secrets.
    fn shown(&self) -> &str;

    /// The names of all that there are.
    ///
    /// # Errors
    /// If it cannot be asked.
    fn list(&self) -> Result<Vec<String>, StoreFault>;

    /// What is in one.
    ///
    /// # Errors
    /// If it is not there, or cannot be asked for.
    fn get(&self, name: &str) -> Result<Vec<u8>, StoreFault>;

    /// Puts one there, or in the place of another.
    ///
    /// # Errors
    /// If it could not; it may be there all the same.
    fn put(&self, name: &str, file: &Path) -> Result<(), StoreFault>;

    /// The same, unless there is one of that name: false then.
    ///
    /// # Errors
    /// As for `put`.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreFault>;

    /// Puts there what is in another one.
    ///
    /// # Errors
    /// As for `put`.
    fn copy(&self, from: &str, to: &str) -> Result<(), StoreFault>;

    /// Takes one away, if it is there.
    ///
    /// # Errors
    /// If it could not.
    fn remove(&self, name: &str) -> Result<(), StoreFault>;
}

/// Why a store did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreFault {
    /// What happened, and to which object.
    pub message: String,
    /// It may be able to the next time: it did not answer, or has an error of its own.
    pub may_pass: bool,
}
