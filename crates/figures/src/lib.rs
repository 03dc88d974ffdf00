//! The figures of the papers, as we see them.
