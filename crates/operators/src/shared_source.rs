//! The first operators of many queries over one table, done once: the columns, the watermark, and whose each row is, or
//! what a filter and expressions make of all of them.

mod view;
mod ways;

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, interleave_record_batch, take_record_batch};
use arrow::error::ArrowError;
use laxity_graph::{EventTime, ProcessingTime};

use self::view::View;
pub use self::view::ViewSpec;
pub use self::ways::{Way, Ways};
use crate::row_index::{Access, RowIndex};
use crate::{
    DeadRows, Emitted, Operator, OperatorError, OperatorState, Outbox, OwnConstants, SourceOperator,
    SourceSpec, StateError, StreamBatch, Template,
};

/// How a query reads a table together with others: what the source does to every row is done once for all who ask the
/// same of it, and each gets what is its.
#[derive(Clone, Debug)]
pub struct SharedSourceSpec {
    /// What is done to every row.
    pub source: SourceSpec,
    /// What it gets.
    pub gets: Gets,
    /// What it does with them, if that is what others do with theirs, and the access lets no other rows through.
    pub template: Option<Arc<Template>>,
    /// What its template leaves open in its results.
    pub constants: Option<Arc<OwnConstants>>,
}

/// What a query gets of a table that it reads with others.
#[derive(Clone, Debug)]
pub enum Gets {
    /// The rows that its filter may keep.
    Rows(Access),
    /// What its filter and what it selects make of all rows.
    View(Arc<ViewSpec>),
}

impl SharedSourceSpec {
    /// Which rows it gets, where these are told apart by its filter.
    pub fn access(&self) -> Option<&Access> {
        match &self.gets {
            Gets::Rows(access) => Some(access),
            Gets::View(_) => None,
        }
    }

    /// What is computed for it.
    pub fn view(&self) -> Option<&ViewSpec> {
        match &self.gets {
            Gets::Rows(_) => None,
            Gets::View(view) => Some(view),
        }
    }

    /// Whether it gets every row of its table, and not by what is computed for it.
    pub fn gets_every_row(&self) -> bool {
        self.access().is_some_and(Access::is_to_every_row)
    }

    /// Whether both get every row and aggregate these in one way, so that it can be done once for both, whatever their
    /// windows.
    pub fn aggregates_as(&self, other: &SharedSourceSpec) -> bool {
        let slicer = |spec: &SharedSourceSpec| {
            let template = spec.template.as_ref().filter(|_| spec.gets_every_row())?;
            template.slices().map(|(slicer, _)| Arc::as_ptr(slicer))
        };
        slicer(self).is_some_and(|own| slicer(other) == Some(own)) && self.source == other.source
    }

    /// The same, of a table of which these columns are read for it. Its source takes them, or all of them.
    ///
    /// # Errors
    /// If they are not those of its source.
    pub fn at(&self, columns: Option<&[usize]>) -> Result<SharedSourceSpec, OperatorError> {
        let Gets::View(view) = &self.gets else { return Ok(self.clone()) };
        let all: Vec<usize>;
        let places = match columns {
            Some(columns) => columns,
            None => {
                all = (0..view.width()).collect();
                &all
            }
        };
        let gets = Gets::View(Arc::new(view.at(places)?));
        Ok(SharedSourceSpec { gets, ..self.clone() })
    }
}

/// A source that several queries share. It stands where each had a [`SourceOperator`] before its filter: rows and
/// watermarks are the same, row for row.
pub struct SharedSource {
    spec: SourceSpec,
    source: SourceOperator,
    index: RowIndex,
    /// What is done behind it, where that is the same for all.
    view: Option<View>,
    outbox: Outbox,
    /// It has taken no rows, nor over what another had.
    is_fresh: bool,
}

/// Rows as those who share the source see them.
#[derive(Debug)]
pub struct FilledRows {
    /// The rows.
    pub batch: StreamBatch,
    /// Least and latest event time in them; `None` without event time.
    pub event_times: Option<(EventTime, EventTime)>,
    /// The watermark behind them.
    pub watermark: EventTime,
}

impl SharedSource {
    /// Instead of a row: all rows of its batch.
    pub const EVERY_ROW: u32 = u32::MAX;

    /// One that nobody has joined, for those who get the like of this.
    ///
    /// # Errors
    /// If columns and schema do not fit each other.
    pub fn new(spec: &SharedSourceSpec) -> Result<SharedSource, OperatorError> {
        match &spec.gets {
            Gets::Rows(_) => SharedSource::of(spec.source.clone(), None),
            Gets::View(view) => {
                let view = View::new(view);
                SharedSource::of(view.source()?, Some(view))
            }
        }
    }

    fn of(spec: SourceSpec, view: Option<View>) -> Result<SharedSource, OperatorError> {
        let source = SourceOperator::new(&spec)?;
        let (index, outbox) = (RowIndex::default(), Outbox::default());
        Ok(SharedSource { spec, source, index, view, outbox, is_fresh: true })
    }

    /// Another at the same place of the stream, for some of those who have joined this one.
    ///
    /// # Errors
    /// As for [`new`](SharedSource::new).
    pub fn fork(&self) -> Result<SharedSource, OperatorError> {
        let source = self.source.fork(&self.spec)?;
        let view = self.view.as_ref().map(View::fork);
        Ok(SharedSource { source, is_fresh: self.is_fresh, ..SharedSource::of(self.spec.clone(), view)? })
    }

    /// What each of those who share it would have saved of its own source.
    ///
    /// # Errors
    /// If a table cannot be made of it.
    pub fn save(&mut self) -> Result<OperatorState, StateError> {
        self.source.save()
    }

    /// Takes over what one that shares it has saved, which has come to the same place; the watermark then. Of several, none
    /// is taken back.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn absorb(&mut self, state: OperatorState) -> Result<EventTime, OperatorError> {
        let internal =
            |message: String| OperatorError::Internal { operator: self.spec.name.clone(), message };
        if std::mem::take(&mut self.is_fresh) {
            self.source.restore(state).map_err(|error| internal(error.to_string()))?;
        } else {
            let mut other = SourceOperator::new(&self.spec)?;
            other.restore(state).map_err(|error| internal(error.to_string()))?;
            self.source.absorb(&other);
        }
        Ok(self.source.watermark())
    }

    /// Whether it does what is asked for.
    pub fn serves(&self, spec: &SharedSourceSpec) -> bool {
        match (&self.view, &spec.gets) {
            (None, Gets::Rows(_)) => self.spec == spec.source,
            (Some(own), Gets::View(view)) => own.serves(view),
            _ => false,
        }
    }

    /// What it gets is this member's from now on.
    pub fn join(&mut self, member: u32, gets: &Gets) {
        match (gets, &mut self.view) {
            (Gets::Rows(access), _) => self.index.join(member, access),
            (Gets::View(spec), Some(view)) => view.join(member, spec),
            (Gets::View(_), None) => {}
        }
    }

    /// The member takes no more rows. `gets` is what it joined with.
    pub fn leave(&mut self, member: u32, gets: &Gets) {
        match (gets, &mut self.view) {
            (Gets::Rows(access), _) => self.index.leave(member, access),
            (Gets::View(_), Some(view)) => view.leave(member),
            (Gets::View(_), None) => {}
        }
    }

    /// Takes rows as they are read; those refused go to `dead`.
    ///
    /// # Errors
    /// If a computed column fails: whoever shares the source asked for it.
    pub fn fill(
        &mut self,
        batch: StreamBatch,
        ingested: ProcessingTime,
        dead: &mut Vec<DeadRows>,
    ) -> Result<FilledRows, OperatorError> {
        self.is_fresh = false;
        if let Some(view) = &mut self.view
            && view.reads_more()
        {
            self.spec = view.source()?;
            self.source = self.source.fork(&self.spec)?;
        }
        let _done = self.source.on_batch(0, batch, ingested, &mut self.outbox)?;
        dead.append(&mut self.outbox.dead);
        let mut rows = None;
        for emitted in self.outbox.emitted.drain(..) {
            if let Emitted::Batch { batch, .. } = emitted {
                rows = Some(batch);
            }
        }
        if let Some(view) = &mut self.view
            && let Some(batch) = rows.take()
        {
            rows = view.calculate(batch)?;
        }
        let empty = || StreamBatch::on_time(RecordBatch::new_empty(self.spec.output_schema.clone()));
        Ok(FilledRows {
            batch: rows.unwrap_or_else(empty),
            event_times: self.source.event_times(),
            watermark: self.source.watermark(),
        })
    }

    /// Moves the watermark on where nothing else does: see [`Operator::follows_processing_time`]. False where it does not.
    pub fn tell_time(&mut self, watermark: EventTime) -> bool {
        let is_told = self.source.follows_processing_time();
        if is_told {
            self.is_fresh = false;
            self.source.tell_time(watermark);
        }
        is_told
    }

    /// Members over whose expressions a row of the last batch has failed, and what each has to say of it. They are to leave:
    /// the batch does not have what they ask for.
    pub fn take_failed(&mut self) -> Vec<(u32, OperatorError)> {
        self.view.as_mut().map(View::take_failed).unwrap_or_default()
    }

    /// Pairs of a member and a row that it gets, in that order, each once; where it gets all, it has one pair with
    /// [`EVERY_ROW`](SharedSource::EVERY_ROW).
    pub fn choose(&mut self, batch: &StreamBatch, chosen: &mut Vec<(u32, u32)>) {
        let Some(view) = &self.view else { return self.index.choose(&batch.rows, chosen) };
        chosen.clear();
        if batch.num_rows() > 0 {
            chosen.extend(view.members().map(|member| (member, SharedSource::EVERY_ROW)));
        }
    }

    /// A batch as a member sees it, if that is not the same for all.
    ///
    /// # Errors
    /// If it was filled before the member was there.
    pub fn of_member(&self, member: u32, batch: &StreamBatch) -> Result<Option<StreamBatch>, OperatorError> {
        self.view.as_ref().map(|view| view.of_member(member, batch)).transpose()
    }

    /// Rows of several batches as one: by the batch and the row in it, or [all of them](SharedSource::EVERY_ROW).
    ///
    /// # Errors
    /// If the batches are not alike, which those of one source always are.
    pub fn gather(batches: &[&StreamBatch], rows: &[(usize, usize)]) -> Result<StreamBatch, OperatorError> {
        const EVERY: usize = SharedSource::EVERY_ROW as usize;
        if let ([batch], [(_, EVERY)]) = (batches, rows) {
            return Ok((*batch).clone());
        }
        if rows.iter().any(|(_, row)| *row == EVERY) {
            return SharedSource::concat(batches, rows);
        }
        let gathered = match batches {
            [batch] => {
                let indices: UInt32Array = rows.iter().map(|&(_, row)| row as u32).collect();
                take_record_batch(&batch.rows, &indices)
            }
            _ => {
                let of: Vec<&RecordBatch> = batches.iter().map(|batch| &batch.rows).collect();
                interleave_record_batch(&of, rows)
            }
        };
        let is_judged = rows.iter().any(|&(batch, _)| batches[batch].watermark_before.is_some());
        // On time, which is what a watermark at the beginning of time says.
        let before = |&(batch, row): &(usize, usize)| {
            let batch: &StreamBatch = batches[batch];
            batch.watermark_before.as_ref().map_or(i64::MIN, |before| before[row])
        };
        Ok(StreamBatch {
            rows: gathered.map_err(failed)?,
            watermark_before: is_judged.then(|| rows.iter().map(before).collect()),
        })
    }

    /// The same, where there are batches whose rows are all wanted.
    fn concat(batches: &[&StreamBatch], rows: &[(usize, usize)]) -> Result<StreamBatch, OperatorError> {
        let of_batches = rows.chunk_by(|one, next| one.0 == next.0).map(|of_batch| {
            let batch = &batches[of_batch[0].0..=of_batch[0].0];
            match of_batch {
                [(_, row)] if *row == SharedSource::EVERY_ROW as usize => Ok(batch[0].clone()),
                _ => {
                    let rows: Vec<_> = of_batch.iter().map(|&(_, row)| (0, row)).collect();
                    SharedSource::gather(batch, &rows)
                }
            }
        });
        let parts: Vec<StreamBatch> = of_batches.collect::<Result<_, _>>()?;
        let rows = concat_batches(&parts[0].rows.schema(), parts.iter().map(|part| &part.rows));
        let is_judged = parts.iter().any(|part| part.watermark_before.is_some());
        let before = parts.iter().flat_map(|part| {
            (0..part.num_rows())
                .map(|row| part.watermark_before.as_ref().map_or(i64::MIN, |before| before[row]))
        });
        Ok(StreamBatch { rows: rows.map_err(failed)?, watermark_before: is_judged.then(|| before.collect()) })
    }
}

fn failed(error: ArrowError) -> OperatorError {
    OperatorError::Internal { operator: "shared source".into(), message: error.to_string() }
}

#[cfg(test)]
mod tests;
