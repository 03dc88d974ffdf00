//! From a row's key columns to the small number that the sampler knows its group by; memory follows the keys that still
//! come.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;

/// Numbers for keys, from 0 on. Those of keys that do not come any more are given to others.
pub(super) struct Groups {
    schema: SchemaRef,
    values: Box<dyn GroupValues>,
    /// With so many it is worth while to see who is still there.
    look_from: usize,
}

/// Fewer are kept for ever.
const FEW: usize = 1_024;

impl Groups {
    /// For keys of these columns, at least one.
    pub(super) fn new(schema: SchemaRef) -> Result<Groups> {
        let values = new_group_values(Arc::clone(&schema), &GroupOrdering::None)?;
        Ok(Groups { schema, values, look_from: FEW })
    }

    /// The number of each row's key.
    pub(super) fn of(&mut self, keys: &[ArrayRef], numbers: &mut Vec<usize>) -> Result<()> {
        self.values.intern(keys, numbers)
    }

    /// All keys by number, and with how many it is worth while to look who is there.
    pub(super) fn save(&mut self) -> Result<(Vec<ArrayRef>, usize)> {
        let keys = self.values.emit(EmitTo::All)?;
        self.restore(&keys, Some(self.look_from))?;
        Ok((keys, self.look_from))
    }

    /// Begins anew with these keys, numbered as they come.
    pub(super) fn restore(&mut self, keys: &[ArrayRef], look_from: Option<usize>) -> Result<()> {
        self.values = new_group_values(Arc::clone(&self.schema), &GroupOrdering::None)?;
        self.values.intern(keys, &mut Vec::new())?;
        self.look_from = look_from.unwrap_or(FEW);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.values.size()
    }

    /// There are twice as many as when it was last looked who is there.
    pub(super) fn is_grown(&self) -> bool {
        self.values.len() >= self.look_from
    }

    /// Forgets those that are not, if they are as many as the others. By number, the new number of those that are; nothing
    /// if none was forgotten.
    pub(super) fn keep(&mut self, alive: &[bool]) -> Result<Option<Vec<Option<u32>>>> {
        let count = alive.iter().filter(|&&alive| alive).count();
        self.look_from = FEW.max(2 * count);
        if 2 * count > alive.len() {
            self.look_from = FEW.max(2 * alive.len());
            return Ok(None);
        }
        let all = self.values.emit(EmitTo::All)?;
        let kept = BooleanArray::from(alive.to_vec());
        let kept = all.iter().map(|keys| filter(keys, &kept)).collect::<Result<Vec<_>, _>>()?;
        self.values = new_group_values(Arc::clone(&self.schema), &GroupOrdering::None)?;
        let mut numbers = Vec::with_capacity(count);
        self.values.intern(&kept, &mut numbers)?;
        let mut numbers = numbers.into_iter();
        let renumbered =
            alive.iter().map(|&alive| if alive { numbers.next().map(|number| number as u32) } else { None });
        Ok(Some(renumbered.collect()))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn numbers_of_keys_that_are_gone_are_given_again() {
        let fields = [Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)];
        for width in [1, 2] {
            let schema = Arc::new(Schema::new(fields[..width].to_vec()));
            let mut groups = Groups::new(schema).unwrap();
            let of = |keys: &[Option<i64>], groups: &mut Groups| {
                let texts = keys.iter().map(|key| key.map(|key| key.to_string()));
                let columns: [ArrayRef; 2] =
                    [Arc::new(Int64Array::from(keys.to_vec())), Arc::new(StringArray::from_iter(texts))];
                let mut numbers = Vec::new();
                groups.of(&columns[..width], &mut numbers).unwrap();
                numbers
            };
            assert_eq!(of(&[Some(5), None, Some(7), Some(9), Some(5)], &mut groups), [0, 1, 2, 3, 0]);
            // More than half are there: nothing is done.
            assert_eq!(groups.keep(&[true, true, false, true]).unwrap(), None);
            let renumbered = groups.keep(&[false, true, false, true]).unwrap().unwrap();
            assert_eq!(renumbered, [None, Some(0), None, Some(1)]);
            assert_eq!(of(&[Some(9), Some(7), None], &mut groups), [1, 2, 0]);
            assert_eq!(groups.len(), 3);
        }
    }
}
