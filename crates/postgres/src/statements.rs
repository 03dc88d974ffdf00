//! The SQL that tables are written and read with.

use laxity_connect::PrimaryKey;
use postgres::Client;

use crate::connection::Fault;
use crate::options::ServerTable;

/// A table's columns as the server calls them, quoted.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// `"schema"."name"`.
    pub table: String,
    /// In the order of the declared ones.
    pub names: Vec<String>,
    /// Of PRIMARY KEY; empty if there is none.
    pub keys: Vec<String>,
}

impl Columns {
    /// Looks the declared columns up: as they are written, or in lower case, as the server keeps what was not quoted.
    pub(crate) fn find(
        client: &mut Client,
        server: &ServerTable,
        schema: &arrow::datatypes::Schema,
    ) -> Result<Columns, Fault> {
        let refused = |error: postgres::Error| Fault::of(&error);
        // to_regclass folds and searches as a FROM would.
        let sql = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                   WHERE c.oid = to_regclass($1)";
        let Some(found) = client.query_opt(sql, &[&server.table]).map_err(refused)? else {
            return Err(Fault::Refused("there is no such table".to_owned()));
        };
        let table = format!("{}.{}", quoted(found.get(0)), quoted(found.get(1)));
        let sql = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";
        let there = client.query(sql, &[&server.table]).map_err(refused)?;
        let there: Vec<String> = there.iter().map(|row| row.get(0)).collect();
        let name_of = |declared: &str| -> Result<String, Fault> {
            let folded = declared.to_lowercase();
            let name = there
                .iter()
                .find(|name| **name == declared)
                .or_else(|| there.iter().find(|name| **name == folded));
            name.map(|name| quoted(name)).ok_or_else(|| {
                Fault::Refused(format!("it has no column {declared}; there are {}", there.join(", ")))
            })
        };
        let fields = schema.fields();
        let names = fields.iter().map(|field| name_of(field.name())).collect::<Result<Vec<_>, _>>()?;
        let mut keys: Vec<(usize, &str)> = fields
            .iter()
            .filter_map(|field| Some((PrimaryKey::place(field)?, field.name().as_str())))
            .collect();
        keys.sort_unstable();
        let keys = keys.into_iter().map(|(_, name)| name_of(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Columns { table, names, keys })
    }

    pub(crate) fn copy_into(&self, table: &str) -> String {
        format!("COPY {table} ({}) FROM STDIN", self.names.join(", "))
    }

    /// A table of this connection alone that rows wait in, numbered as they come.
    pub(crate) fn stage(&self, stage: &str) -> String {
        format!(
            "CREATE TEMPORARY TABLE {stage} AS SELECT {} FROM {} LIMIT 0; \
             ALTER TABLE {stage} ADD laxity_number BIGINT GENERATED ALWAYS AS IDENTITY",
            self.names.join(", "),
            self.table
        )
    }

    /// Moves rows on from there: in their order, or the last of each key in place of what the table has of it.
    pub(crate) fn merge(&self, stage: &str) -> String {
        let names = self.names.join(", ");
        let table = &self.table;
        if self.keys.is_empty() {
            return format!(
                "INSERT INTO {table} ({names}) SELECT {names} FROM {stage} ORDER BY laxity_number"
            );
        }
        let keys = self.keys.join(", ");
        let others: Vec<String> = self
            .names
            .iter()
            .filter(|name| !self.keys.contains(name))
            .map(|name| format!("{name} = EXCLUDED.{name}"))
            .collect();
        let change = match others.is_empty() {
            true => "NOTHING".to_owned(),
            false => format!("UPDATE SET {}", others.join(", ")),
        };
        format!(
            "INSERT INTO {table} ({names}) SELECT {names} FROM (SELECT DISTINCT ON ({keys}) * FROM {stage} \
             ORDER BY {keys}, laxity_number DESC) AS latest ON CONFLICT ({keys}) DO {change}"
        )
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_a_key_takes_the_place_of_the_one_before() {
        let columns = |keys: &[&str]| Columns {
            table: "\"public\".\"t\"".to_owned(),
            names: vec!["\"a\"".to_owned(), "\"b\"".to_owned()],
            keys: keys.iter().map(|key| quoted(key)).collect(),
        };
        assert!(columns(&[]).merge("s").ends_with("FROM s ORDER BY laxity_number"));
        let upsert = columns(&["a"]).merge("s");
        assert!(
            upsert.contains("DISTINCT ON (\"a\") * FROM s ORDER BY \"a\", laxity_number DESC"),
            "{upsert}"
        );
        assert!(upsert.ends_with("ON CONFLICT (\"a\") DO UPDATE SET \"b\" = EXCLUDED.\"b\""), "{upsert}");
        assert!(columns(&["a", "b"]).merge("s").ends_with("DO NOTHING"));
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
