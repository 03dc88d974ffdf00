//! A script as Flink is given it: statement by statement, without what is Laxity's alone.

use std::path::{Path, PathBuf};

use datafusion_sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};
use laxity_graph::LatencyTarget;

use crate::compile::SqlFile;
use crate::error::{Fault, SqlError, SqlErrorKind};
use crate::parse::{StatementParser, words_to_parse};
use crate::settings::{POLICY_KEY, SessionSettings};
use crate::statement::{CreateTable, Insert, Statement, StatementKind};
use crate::words::words_within;

/// Statements for one session of Flink, in order.
#[derive(Debug)]
pub struct FlinkScript {
    /// What to execute, one by one.
    pub statements: Vec<FlinkStatement>,
    /// What Flink is not told, with its place: it changes no result, but how rows come or where they are counted.
    pub left_out: Vec<String>,
}

/// One statement.
#[derive(Debug, PartialEq)]
pub struct FlinkStatement {
    /// Its SQL, without a semicolon.
    pub text: String,
    /// `file:line` where it begins.
    pub place: String,
    /// What it starts. `None`: a table, a view or a setting of the session.
    pub job: Option<FlinkJob>,
}

/// What an INSERT or a STATEMENT SET becomes.
#[derive(Debug, PartialEq)]
pub struct FlinkJob {
    /// `pipeline.name`, or `insert-into_SINK`.
    pub name: String,
    /// `laxity.latency.target`.
    pub latency_target: LatencyTarget,
}

/// Options without the prefix `laxity.` that Flink's connectors do not have, and what to do instead.
const OURS: &[(&str, &str)] = &[
    ("csv.header", "Flink would read the line of names as a row: take it out of the file"),
    ("compression", "Flink knows compression by the ending of the file's name: .gz, .zst"),
];

/// The statements of files that are one script. They are parsed, but neither planned nor are their tables looked at:
/// whether they can run is Flink's to say.
///
/// # Errors
/// The first mistake, or the first thing that only Laxity does, with its place.
pub fn flink_script(files: &[SqlFile]) -> Result<FlinkScript, SqlError> {
    let script = FlinkScript { statements: vec![], left_out: vec![] };
    let mut writer = Writer { script, settings: SessionSettings::default() };
    for file in files {
        writer.take(file).map_err(|fault| fault.into_error(&file.path, &file.text))?;
    }
    Ok(writer.script)
}

struct Writer {
    script: FlinkScript,
    settings: SessionSettings,
}

impl Writer {
    fn take(&mut self, file: &SqlFile) -> Result<(), Box<Fault>> {
        let tokens = words_to_parse(&file.text)?;
        let mut parser = StatementParser::new(&tokens);
        while let Some(statement) = parser.next_statement()? {
            self.statement(file, &tokens, &statement).map_err(|fault| fault.or_at(statement.span.start))?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        file: &SqlFile,
        tokens: &[TokenWithSpan],
        statement: &Statement,
    ) -> Result<(), Box<Fault>> {
        let at = statement.span.start;
        let as_it_is = || slice(&file.text, statement.span).to_owned();
        let (text, job) = match &statement.kind {
            StatementKind::Set { key, .. } if key.value == POLICY_KEY => return Ok(()),
            StatementKind::Set { key, value } if key.value == "pipeline.name" => {
                return self.settings.set(key, value);
            }
            StatementKind::Set { key, value } if key.value.starts_with("laxity.") => {
                self.settings.set(key, value)?;
                if key.value != "laxity.latency.target" {
                    self.leave_out(file, key.span.start, &format!("SET '{}'", key.value));
                }
                return Ok(());
            }
            StatementKind::Reset(Some(key)) if key.value == POLICY_KEY => return Ok(()),
            StatementKind::Reset(Some(key))
                if key.value == "pipeline.name" || key.value.starts_with("laxity.") =>
            {
                return self.settings.reset(Some(key));
            }
            StatementKind::Reset(None) => {
                self.settings.reset(None)?;
                (as_it_is(), None)
            }
            StatementKind::CreateTable(table) => (self.table(file, tokens, statement.span, table)?, None),
            StatementKind::Insert(insert) => (as_it_is(), Some(self.job(std::slice::from_ref(insert)))),
            StatementKind::StatementSet(inserts) => {
                let inserts_text: String =
                    inserts.iter().map(|insert| format!("{};\n", slice(&file.text, insert.span))).collect();
                let text = format!("EXECUTE STATEMENT SET\nBEGIN\n{inserts_text}END");
                (text, Some(self.job(inserts)))
            }
            StatementKind::Query(_) => {
                return Err(Fault::new(SqlErrorKind::Unsupported, at, "a SELECT on its own makes no job")
                    .hint("write INSERT INTO a table; one with 'connector' = 'print' prints"));
            }
            StatementKind::Explain(_) => return Ok(()),
            StatementKind::Set { .. }
            | StatementKind::Reset(_)
            | StatementKind::CreateView(_)
            | StatementKind::Drop { .. } => (as_it_is(), None),
        };
        let place = format!("{}:{}", file.path.display(), at.line);
        self.script.statements.push(FlinkStatement { text, place, job });
        Ok(())
    }

    fn job(&self, inserts: &[Insert]) -> FlinkJob {
        let sinks = || inserts.iter().map(|insert| insert.table.value.as_str()).collect::<Vec<_>>().join("_");
        FlinkJob {
            name: self.settings.name.clone().unwrap_or_else(|| format!("insert-into_{}", sinks())),
            latency_target: self.settings.latency_target,
        }
    }

    /// CREATE TABLE without our options, and with a path that does not depend on where Flink runs.
    fn table(
        &mut self,
        file: &SqlFile,
        tokens: &[TokenWithSpan],
        span: Span,
        table: &CreateTable,
    ) -> Result<String, Box<Fault>> {
        let mut kept = Vec::new();
        let mut is_changed = false;
        for (key, option) in &table.options.entries {
            if key.starts_with("laxity.") {
                self.leave_out(file, option.key_at, &format!("'{key}' of table {}", table.name.value));
                is_changed = true;
                continue;
            }
            if let Some((_, instead)) = OURS.iter().find(|(ours, _)| ours == key) {
                if ["false", "auto", "none"].contains(&option.value.as_str()) {
                    is_changed = true;
                    continue;
                }
                let message = format!("'{key}' is no option of Flink");
                return Err(Fault::new(SqlErrorKind::Option, option.key_at, message).hint(*instead));
            }
            let path = (key == "path").then(|| absolute(&file.path, &option.value)).flatten();
            is_changed |= path.is_some();
            let value = path.unwrap_or_else(|| option.value.clone());
            kept.push(format!("{} = {}", quoted(key), quoted(&value)));
        }
        let words = words_within(tokens, span);
        let clause = words.iter().position(|word| word.span.start == table.options.at);
        let open = clause.filter(|_| is_changed).map(|with| &words[with + 1..]).unwrap_or_default();
        // Keys and values are strings: the first ')' closes the clause.
        let close = open.iter().find(|word| word.token == Token::RParen);
        let (Some(first), Some(close)) = (open.first(), close) else {
            return Ok(slice(&file.text, span).to_owned());
        };
        let before = slice(&file.text, Span::new(span.start, first.span.start));
        let after = slice(&file.text, Span::new(close.span.end, span.end));
        Ok(format!("{before}({}){after}", kept.join(", ")))
    }

    fn leave_out(&mut self, file: &SqlFile, at: Location, what: &str) {
        self.script.left_out.push(format!("{}:{}:{}: {what}", file.path.display(), at.line, at.column));
    }
}

/// The path below the folder of the SQL file, where it is relative; `None` where it can stay.
fn absolute(sql: &Path, path: &str) -> Option<String> {
    if Path::new(path).is_absolute() || path.contains("://") {
        return None;
    }
    let folder = sql.parent().map(PathBuf::from).unwrap_or_default();
    let joined = std::path::absolute(folder.join(path)).ok()?;
    joined.to_str().map(str::to_owned)
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What stands between two places of a text.
fn slice(text: &str, span: Span) -> &str {
    &text[offset(text, span.start)..offset(text, span.end)]
}

/// Lines and columns are counted from 1, columns in characters.
fn offset(text: &str, at: Location) -> usize {
    let nth = |count: u64| usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut line_start = 0;
    for line in text.split_inclusive('\n').take(nth(at.line)) {
        line_start += line.len();
    }
    let line = &text[line_start..];
    line.char_indices().nth(nth(at.column)).map_or(text.len(), |(index, _)| line_start + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<FlinkScript, SqlError> {
        flink_script(&[SqlFile { path: "/jobs/a.sql".into(), text: text.into() }])
    }

    #[test]
    fn what_is_ours_is_left_out_and_named() {
        let script = script(
            "-- Überschrift\nSET 'laxity.latency.target' = '50 ms'; SET 'pipeline.name' = 'alarms';\n\
             SET 'state.backend.type' = 'hashmap';\n\
             CREATE TABLE t (s STRING, 'ö' STRING) WITH ('connector' = 'filesystem', 'laxity.replay.speed' = '2',\n\
             'path' = 'in/t.csv', 'format' = 'csv', 'laxity.shared' = 'x');\n\
             CREATE TABLE o (s STRING) WITH ('connector' = 'blackhole');\n\
             SET 'laxity.weight' = '2';\nINSERT INTO o SELECT s || ';' FROM t;\n\
             RESET 'pipeline.name'; RESET 'laxity.latency.target';\n\
             BEGIN STATEMENT SET; INSERT INTO o SELECT s FROM t; INSERT INTO o SELECT 'x' FROM t; END;"
                .replace("'ö' STRING", "`ö` STRING")
                .as_str(),
        )
        .unwrap();
        let texts: Vec<&str> = script.statements.iter().map(|statement| statement.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "SET 'state.backend.type' = 'hashmap'",
                "CREATE TABLE t (s STRING, `ö` STRING) WITH ('connector' = 'filesystem', 'format' = 'csv', \
                 'path' = '/jobs/in/t.csv')",
                "CREATE TABLE o (s STRING) WITH ('connector' = 'blackhole')",
                "INSERT INTO o SELECT s || ';' FROM t",
                "EXECUTE STATEMENT SET\nBEGIN\nINSERT INTO o SELECT s FROM t;\nINSERT INTO o SELECT 'x' FROM t;\nEND",
            ]
        );
        assert_eq!(
            script.left_out,
            [
                "/jobs/a.sql:4:73: 'laxity.replay.speed' of table t",
                "/jobs/a.sql:5:40: 'laxity.shared' of table t",
                "/jobs/a.sql:7:5: SET 'laxity.weight'",
            ]
        );
        let jobs: Vec<_> = script.statements.iter().filter_map(|s| s.job.as_ref()).collect();
        assert_eq!((jobs[0].name.as_str(), jobs[0].latency_target.ns()), ("alarms", 50_000_000));
        assert_eq!(
            (jobs[1].name.as_str(), jobs[1].latency_target),
            ("insert-into_o_o", LatencyTarget::DEFAULT)
        );
        assert_eq!(script.statements[3].place, "/jobs/a.sql:8");
    }

    #[test]
    fn what_flink_cannot_do_is_refused() {
        for (text, says) in [
            ("SELECT 1;", "a SELECT on its own makes no job"),
            (
                "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'csv.header' = 'true');",
                "'csv.header' is no option of Flink",
            ),
            ("SET 'laxity.wieght' = '1';", "unknown key 'laxity.wieght'"),
            ("INSERT INTO", "expected"),
        ] {
            let error = script(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let harmless =
            script("CREATE TABLE t (a INT) WITH ('csv.header' = 'false', 'connector' = 'x')").unwrap();
        assert_eq!(harmless.statements[0].text, "CREATE TABLE t (a INT) WITH ('connector' = 'x')");
    }
}
