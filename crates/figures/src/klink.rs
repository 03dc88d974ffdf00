use crate::Figure;

/// Nothing yet.
pub(crate) const FIGURES: &[Figure] = &[];
