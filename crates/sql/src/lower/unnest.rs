use std::sync::Arc;

use laxity_operators::{UnnestSpec, WindowKind};

use super::relation::{Output, PendingWindow, Relation, Role, Slot, Waiting};
use super::{Lowered, Lowering};
use crate::error::{Fault, NOWHERE};
use crate::unnest::Unnest;

impl Lowering<'_> {
    /// Follows the operators of its input in their instances, and leaves times and windows as they are.
    pub(super) fn unnest(&mut self, unnest: &Unnest) -> Lowered<Relation> {
        let input = self.relation(&unnest.input)?;
        let collection = self.physical(&unnest.collection, unnest.input.schema())?;
        // A session is held open by rows without elements too.
        let is_session =
            matches!(&input.window, Some(PendingWindow { kind: WindowKind::Session { .. }, .. }));
        let input = if is_session || input.uses_window(&collection) { self.expand(input)? } else { input };
        let collection = input.map(&collection).map_err(|error| self.planner.fault(error))?;
        let (input, columns) =
            input.with_columns(&[collection]).map_err(|error| self.planner.fault(error))?;
        let mut input = input.apply_filter().map_err(|error| self.planner.fault(error))?;
        input.open.make_calc();
        let width = input.schema.fields().len();
        let spec = UnnestSpec {
            name: "Unnest".into(),
            input_schema: Arc::clone(&input.schema),
            column: columns[0],
            kept: (0..width).collect(),
            with_ordinality: unnest.with_ordinality,
            keeps_empty: unnest.keeps_empty,
        };
        input.schema = spec.output_schema().map_err(|error| Fault::internal(NOWHERE, error))?;
        let elements = width..input.schema.fields().len();
        input.outputs.extend(elements.map(|column| Output { slot: Slot::Column(column), role: Role::Plain }));
        input.open.calc = Some(Waiting::Unnest(spec));
        Ok(input)
    }
}
