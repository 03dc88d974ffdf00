//! The words for joins, the same for window, interval and lookup joins; not every one of those offers them all.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};

/// What a join does with pairs and with rows that found no partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Pairs only.
    Inner,
    /// Pairs, and left rows without a partner, padded with NULL.
    Left,
    /// Pairs, and right rows without a partner, padded with NULL.
    Right,
    /// Pairs, and rows of both sides without a partner.
    Full,
    /// Left rows that have a partner, once each (`EXISTS`).
    Semi,
    /// Left rows that have none (`NOT EXISTS`). A row with a NULL key has none.
    Anti,
}

impl JoinKind {
    /// Columns of the result: left then right, nullable where padding can occur; the left alone for
    /// [`Semi`](JoinKind::Semi) and [`Anti`](JoinKind::Anti).
    pub fn output_schema(self, left: &Schema, right: &Schema) -> SchemaRef {
        let side = |schema: &Schema, padded: bool| -> Vec<Field> {
            schema
                .fields()
                .iter()
                .map(|field| field.as_ref().clone().with_nullable(padded || field.is_nullable()))
                .collect()
        };
        let mut fields = side(left, self.keeps_right());
        if self.emits_pairs() {
            fields.extend(side(right, self.keeps_left()));
        }
        Arc::new(Schema::new(fields))
    }

    /// Whether left rows without a partner are padded.
    pub(crate) fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full)
    }

    /// Whether right rows without a partner are padded.
    pub(crate) fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// Whether pairs themselves are results.
    pub(crate) fn emits_pairs(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

impl fmt::Display for JoinKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Right => "right",
            JoinKind::Full => "full",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    #[test]
    fn padding_makes_columns_nullable() {
        let left = Schema::new(vec![Field::new("l", DataType::Int64, false)]);
        let right = Schema::new(vec![Field::new("r", DataType::Int64, false)]);
        let nullable = |kind: JoinKind| -> Vec<bool> {
            kind.output_schema(&left, &right).fields().iter().map(|f| f.is_nullable()).collect()
        };
        assert_eq!(nullable(JoinKind::Inner), [false, false]);
        assert_eq!(nullable(JoinKind::Left), [false, true]);
        assert_eq!(nullable(JoinKind::Right), [true, false]);
        assert_eq!(nullable(JoinKind::Full), [true, true]);
        assert_eq!(nullable(JoinKind::Semi), [false]);
        assert_eq!(nullable(JoinKind::Anti), [false]);
    }
}
