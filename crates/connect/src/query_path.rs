//! `${query}` in a path: one table that many queries write, each to a place of its own.

use std::path::PathBuf;

use crate::options::OptionReader;
use crate::{OptionError, filesystem, partition};

/// The option 'path' of a table that is written: where `${query}` stands in it, each query that writes the table has a file,
/// or a folder, of its own.
#[derive(Clone, Debug)]
pub(crate) struct QueryPath {
    path: PathBuf,
    is_each_own: bool,
}

/// What is put in the place of the query's name. To Flink and Hive it is a name like any other.
const QUERY: &str = "${query}";

impl QueryPath {
    /// # Errors
    /// As for any path, and if something else stands in braces.
    pub fn read(options: &OptionReader<'_>) -> Result<QueryPath, OptionError> {
        let path = filesystem::path(options)?;
        let text = options.text("path").unwrap_or_default();
        if text.replace(QUERY, "").contains("${") {
            let message =
                format!("only '{QUERY}' can stand in braces, for the name of the query that writes");
            return Err(options.error("path", message));
        }
        Ok(QueryPath { path, is_each_own: is_of_queries(text) })
    }

    /// Whether each query has its own.
    pub fn is_each_own(&self) -> bool {
        self.is_each_own
    }

    /// That of a query.
    pub fn of(&self, query: &str) -> PathBuf {
        if !self.is_each_own {
            return self.path.clone();
        }
        let name = file_name(query);
        let part =
            |part: &std::ffi::OsStr| part.to_str().map_or_else(|| part.into(), |part| named(part, &name));
        self.path.iter().map(part).collect()
    }
}

/// Whether such a path is another one for each query.
pub(crate) fn is_of_queries(path: &str) -> bool {
    path.contains(QUERY)
}

/// Such a path for a query.
pub(crate) fn path_of(path: &str, query: &str) -> String {
    path.replace(QUERY, &file_name(query))
}

fn named(part: &str, name: &str) -> std::ffi::OsString {
    part.replace(QUERY, name).into()
}

/// A name as part of a path, another one for every name: never a folder further up or down.
pub(crate) fn file_name(query: &str) -> String {
    if !query.is_empty() && query.bytes().all(|letter| letter == b'.') {
        return query.replace('.', "%2E");
    }
    partition::escaped(query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TIMESTAMP, file_table};

    fn path(text: &str) -> Result<QueryPath, OptionError> {
        let table = file_table(std::path::Path::new("/base"), "csv", text, &[("t", TIMESTAMP)], &[]);
        QueryPath::read(&OptionReader::new(&table))
    }

    #[test]
    fn each_query_has_its_own_path() {
        let of = |text: &str, query: &str| path(text).unwrap().of(query).to_str().unwrap().to_owned();
        assert_eq!(of("out/${query}.csv", "q1"), "/base/out/q1.csv");
        assert_eq!(of("${query}/of ${query}", "q1"), "/base/q1/of q1");
        assert_eq!(of("out.csv", "q1"), "/base/out.csv");
        assert!(!path("out.csv").unwrap().is_each_own() && path("${query}").unwrap().is_each_own());
        // No name leads elsewhere, and no two to the same file.
        assert_eq!(of("out/${query}", "../a/b"), "/base/out/..%2Fa%2Fb");
        assert_eq!(of("out/${query}", ".."), "/base/out/%2E%2E");
        assert_eq!(of("out/${query}", "%2E%2E"), "/base/out/%252E%252E");
    }

    #[test]
    fn nothing_else_stands_in_braces() {
        let error = path("out/${table}.csv").unwrap_err();
        assert_eq!(error.key, "path");
        assert!(error.message.contains("only '${query}'"), "{error}");
        assert!(path("out/$query.csv").is_ok());
    }
}
