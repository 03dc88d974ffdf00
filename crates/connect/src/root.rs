//! Keeps tables of SQL that is not ours within one folder, whatever paths they name.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::OptionError;
use crate::options::OptionReader;

/// The option that keeps the files of a table below a folder. Whoever runs SQL of others sets it, over what they say.
pub const ROOT_OPTION: &str = "laxity.root";

/// Refuses a path that leads out of the folder of [`ROOT_OPTION`], links followed; without one every path is taken. Who
/// can put links into the folder while it is looked at is not kept out: the folder must be ours.
pub(crate) fn keep_within(options: &OptionReader<'_>, key: &str, path: &Path) -> Result<(), OptionError> {
    let Some(root) = options.table().options.get(ROOT_OPTION) else { return Ok(()) };
    let refused = |why: String| options.error(key, format!("{}: {why}", path.display()));
    let root = Path::new(root).canonicalize().map_err(|error| refused(format!("{root}: {error}")))?;
    let real = resolved(path).map_err(|error| refused(error.to_string()))?;
    if real.starts_with(&root) {
        return Ok(());
    }
    Err(refused(format!("outside of {}, and --root allows nothing else", root.display())))
}

/// Where the path leads, also if its end is not there yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut missing = Vec::new();
    let mut there = absolute.as_path();
    loop {
        // A link to nothing is there, and what is made through it would be elsewhere.
        if there.symlink_metadata().is_ok() {
            let mut real = there.canonicalize()?;
            real.extend(missing.iter().rev());
            return Ok(real);
        }
        match (there.components().next_back(), there.parent()) {
            (Some(Component::Normal(name)), Some(parent)) => {
                missing.push(name.to_owned());
                there = parent;
            }
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a path with .. through what is not there",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use arrow::datatypes::Schema;

    use super::*;
    use crate::TableSpec;

    #[test]
    fn paths_and_links_that_lead_out_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tenant");
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(folder.path().join("secret.csv"), "1\n").unwrap();
        symlink(folder.path().join("secret.csv"), root.join("link.csv")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        symlink(folder.path().join("not there yet"), root.join("dangling.csv")).unwrap();
        symlink("data", root.join("inside")).unwrap();
        let table = TableSpec {
            name: "t".into(),
            schema: Arc::new(Schema::empty()),
            options: BTreeMap::from([(ROOT_OPTION.to_string(), root.display().to_string())]),
            base: root.clone(),
        };
        let may = |path: &str| {
            let options = OptionReader::new(&table);
            keep_within(&options, "path", &root.join(path)).map_err(|error| error.to_string())
        };
        for path in ["", "a.csv", "data/a.csv", "inside/new/a.csv", "data/../a.csv"] {
            assert_eq!(may(path), Ok(()), "{path}");
        }
        for path in [
            "../secret.csv",
            "link.csv",
            "up/secret.csv",
            "up/new.csv",
            "dangling.csv",
            "/etc/passwd",
            "new/../../x",
        ] {
            let refused = may(path).expect_err(path);
            assert!(refused.contains("option 'path' of table t"), "{refused}");
        }
    }
}
