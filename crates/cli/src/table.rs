//! Text in columns, for a terminal of a given width.

/// One column of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading.
    pub title: &'static str,
    /// Numbers stand right, names left.
    pub right: bool,
    /// Where the terminal is too narrow, the column of the highest number goes first. 0 stays.
    pub dispensable: u8,
}

/// Rows under headings. The first column is cut where nothing else helps.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

const GAP: usize = 2;

impl Table {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "{cells:?}");
        self.rows.push(cells);
    }

    /// One line for the headings and one per row, none wider than `width`, without line ends.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut widths: Vec<usize> = shown.iter().map(|&column| self.natural_width(column)).collect();
        while total(&shown, &widths) > width {
            let least = shown.iter().copied().max_by_key(|&column| self.columns[column].dispensable);
            match least.filter(|&column| self.columns[column].dispensable > 0) {
                Some(column) => shown.retain(|&other| other != column),
                None => break,
            }
        }
        let excess = total(&shown, &widths).saturating_sub(width);
        widths[0] = widths[0].saturating_sub(excess).max(1);

        let headings: Vec<String> = self.columns.iter().map(|column| column.title.to_string()).collect();
        std::iter::once(&headings).chain(&self.rows).map(|cells| self.line(cells, &shown, &widths)).collect()
    }

    fn natural_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| chars(&row[column]));
        cells.chain([chars(self.columns[column].title)]).max().unwrap_or(0)
    }

    fn line(&self, cells: &[String], shown: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for &column in shown {
            if !line.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = cut(&cells[column], widths[column]);
            let padding = " ".repeat(widths[column] - chars(&cell));
            if self.columns[column].right {
                line.push_str(&padding);
                line.push_str(&cell);
            } else {
                line.push_str(&cell);
                line.push_str(&padding);
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn total(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().map(|&column| widths[column] + GAP).sum::<usize>().saturating_sub(GAP)
}

/// `text`, or as much of it as fits with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_string();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&[
            Column { title: "query", right: false, dispensable: 0 },
            Column { title: "p99", right: true, dispensable: 0 },
            Column { title: "dead", right: true, dispensable: 2 },
            Column { title: "late", right: true, dispensable: 1 },
        ]);
        table.push(vec!["urgent".into(), "12 ms".into(), "0".into(), "7".into()]);
        table.push(vec!["delays by airport".into(), "1.2 s".into(), "3".into(), "10.1k".into()]);
        table
    }

    #[test]
    fn columns_align() {
        assert_eq!(
            sample().lines(80),
            [
                "query                p99  dead   late",
                "urgent             12 ms     0      7",
                "delays by airport  1.2 s     3  10.1k",
            ]
        );
    }

    #[test]
    fn narrow_terminals_lose_the_dispensable_columns_then_part_of_the_name() {
        assert_eq!(sample().lines(31)[2], "delays by airport  1.2 s  10.1k");
        assert_eq!(sample().lines(30)[2], "delays by airport  1.2 s");
        assert_eq!(sample().lines(14)[2], "delays…  1.2 s");
        assert_eq!(sample().lines(1)[2], "…  1.2 s");
    }
}
