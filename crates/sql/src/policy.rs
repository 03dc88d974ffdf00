//! One policy for the whole process, however many files name one: where two differ, both places are told.

use std::path::PathBuf;

use datafusion_sql::sqlparser::ast::Ident;

use crate::compile::SqlFile;
use crate::error::{Fault, SqlError, SqlErrorKind};
use crate::settings::POLICY_KEY;

/// `SET 'laxity.policy'`: who decides what runs next, with the place that says so.
///
/// One process has one policy, so the key holds for all files, whatever stands before or after it; two places
/// that name different ones contradict each other. A RESET of all keys leaves it, a RESET of its own takes it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySetting {
    /// As written. What names there are is the scheduler's business.
    pub policy: String,
    /// The file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    source_line: String,
}

impl PolicySetting {
    pub(crate) fn set(
        current: &mut Option<PolicySetting>,
        key: &Ident,
        value: &str,
        file: &SqlFile,
    ) -> Result<(), Box<Fault>> {
        let at = key.span.start;
        let policy = value.trim();
        if policy.is_empty() {
            return Err(Fault::new(SqlErrorKind::Option, at, format!("'{POLICY_KEY}' must not be empty"))
                .hint("`laxity policies` lists the choices"));
        }
        let line = at.line.max(1);
        let source_line = file.text.lines().nth(line as usize - 1).unwrap_or("").to_string();
        let setting = PolicySetting {
            policy: policy.to_string(),
            file: file.path.clone(),
            line,
            column: at.column.max(1),
            source_line,
        };
        PolicySetting::unite(current, Some(setting)).map_err(|error| {
            let fault = Fault::new(error.kind, at, error.message);
            fault.hint(error.hint.unwrap_or_default())
        })
    }

    /// The policy that both name; either may name none.
    pub(crate) fn unite(
        current: &mut Option<PolicySetting>,
        other: Option<PolicySetting>,
    ) -> Result<(), SqlError> {
        let Some(other) = other else { return Ok(()) };
        match current {
            None => *current = Some(other),
            Some(earlier) if earlier.policy == other.policy => {}
            Some(earlier) => {
                let PolicySetting { policy, file, line, column, .. } = earlier;
                let message = format!(
                    "'{POLICY_KEY}' is '{}' here and '{policy}' at {}:{line}:{column}; a process has one policy",
                    other.policy,
                    file.display()
                );
                let hint = "leave one of them out, or run the files in processes of their own";
                let error = other.refuse(message, Some(hint.to_string()));
                return Err(SqlError { kind: SqlErrorKind::Invalid, ..error });
            }
        }
        Ok(())
    }

    /// The error for a policy that whoever runs the script does not have.
    pub fn refuse(&self, message: impl Into<String>, hint: Option<String>) -> SqlError {
        SqlError {
            file: self.file.clone(),
            line: self.line,
            column: self.column,
            kind: SqlErrorKind::Option,
            message: message.into(),
            hint,
            source_line: self.source_line.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compile;

    fn policy_of(texts: &[(&str, &str)]) -> Result<Option<PolicySetting>, SqlError> {
        let files: Vec<SqlFile> =
            texts.iter().map(|(path, text)| SqlFile { path: path.into(), text: (*text).into() }).collect();
        compile(&files).map(|script| script.policy)
    }

    #[test]
    fn the_process_has_the_one_policy_that_files_name() {
        let named = policy_of(&[
            ("a.sql", "SET 'parallelism.default' = '2';\nRESET;"),
            ("b.sql", "\n SET 'laxity.policy' = 'klink';"),
        ]);
        let named = named.unwrap().expect("b names one");
        assert_eq!((named.policy.as_str(), named.line, named.column), ("klink", 2, 6));
        assert_eq!(
            named.refuse("no policy is named 'klink'", None).to_string(),
            "b.sql:2:6: no policy is named 'klink'\n  |  SET 'laxity.policy' = 'klink';\n  |      ^"
        );
        let kept = policy_of(&[("a.sql", "SET 'laxity.policy' = 'rr'; RESET; SET 'laxity.policy' = 'rr';")]);
        assert_eq!(kept.unwrap().map(|named| named.policy).as_deref(), Some("rr"));
        let taken_back = policy_of(&[("a.sql", "SET 'laxity.policy' = 'rr'; RESET 'laxity.policy';")]);
        assert_eq!(taken_back.unwrap(), None);
    }

    #[test]
    fn two_that_differ_are_both_named() {
        let refused =
            policy_of(&[("a.sql", "SET 'laxity.policy' = 'rr';"), ("b.sql", "SET 'laxity.policy' = 'hr';")]);
        let text = refused.unwrap_err().to_string();
        assert!(
            text.starts_with(
                "b.sql:1:5: 'laxity.policy' is 'hr' here and 'rr' at a.sql:1:5; a process has one policy"
            ),
            "{text}"
        );
    }
}
