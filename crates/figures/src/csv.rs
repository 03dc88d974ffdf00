//! Raw rows as RFC 4180 text.

use crate::Table;

/// The table as csv, header first.
pub(crate) fn text(table: &Table) -> String {
    let mut out = String::new();
    line(&mut out, &table.columns);
    for row in &table.rows {
        line(&mut out, row);
    }
    out
}

fn line(out: &mut String, cells: &[String]) {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if cell.contains(['"', ',', '\n']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must() {
        let mut table = Table::new(["policy", "p99_ms"]);
        table.push([&"a,\"b\"", &1.5]);
        assert_eq!(text(&table), "policy,p99_ms\n\"a,\"\"b\"\"\",1.5\n");
    }
}
