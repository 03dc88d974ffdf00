//! What queries hold, on disk.
//!
//! A folder has a folder of each query, and that one for each checkpoint:
//!
//! ```text
//! FOLDER/lock                                    held by the process that works with it
//! FOLDER/QUERY/chk-7/manifest.json               what it is, with the length and checksum of every file
//! FOLDER/QUERY/chk-7/NODE-INSTANCE-PART.arrow    a table of an operator's, as an Arrow IPC file
//! FOLDER/checkpoints-12.pack                     the same of several queries, where they are small
//! ```
//!
//! A table that is as it was in the checkpoint before is not written again: both folders have its file, by hard links, and
//! each is whole without the other. Where the file system has none it is written.
//!
//! A checkpoint is written under another name, synced, and renamed: it is there whole or not at all. One that was damaged
//! since is told of and left where it is. Nothing is removed that this crate has not written.
//!
//! A store of objects may have a copy of the folder ([`Mirror`]), from which another machine goes on.
//!
//! Start with [`StateFolder`]; [`Manifest`] is the format.

mod direct;
mod folder;
mod manifest;
mod mirror;
mod pack;
mod query;
mod store;
mod tables;
mod written;

pub use folder::{StateError, StateFolder, StateLook};
pub use manifest::{
    FileRead, InstanceEntry, Manifest, Offsets, OutputEntry, PartEntry, SourceEntry, StoredFile, VERSION,
};
pub use mirror::Mirror;
pub use pack::Encoded;
pub use query::{
    Checkpoint, Checkpoints, Damaged, Draft, KEPT, LaterTables, MakeTables, NamedTable, QueryFolder,
    StoredBytes,
};
pub use store::{ObjectStore, StoreFault};
