//! From files of SQL to queries that can run: statements take effect in their order, and the queries among them are
//! planned side by side. Whatever goes wrong, a panic too, comes out as a `SqlError`.

mod insert_each;
mod lone;
mod scope;
mod table;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_expr::{Expr, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::Ident;
use datafusion_sql::sqlparser::tokenizer::{Span, TokenWithSpan};
use laxity_connect::{OptionError, ScanSpec, SinkSpec, validate_sink};
use laxity_graph::{Dataflow, NodeId};
use laxity_operators::{LateColumn, Stage};
use laxity_text::closest;

use self::lone::Lone;
use self::scope::Scope;
use crate::alike::Alike;
use crate::apart::Windows;
use crate::catalog::{Catalog, Relation, Table};
use crate::error::{Fault, NOWHERE, SqlError, SqlErrorKind};
use crate::lower::LookupSource;
use crate::parse::{StatementParser, words_to_parse};
use crate::planning::Planner;
use crate::policy::PolicySetting;
use crate::settings::{POLICY_KEY, SessionSettings};
use crate::side_by_side::{cores, on_deep_stack, side_by_side};
use crate::statement::{CreateTable, CreateView, DropObject, Statement, StatementKind, WithOptions};
use crate::template::{TableKey, Templates};
use crate::words::words_within;
use crate::written_out::WrittenOut;

/// A file of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlFile {
    /// For error messages; relative paths in options are read against its folder.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// What a script amounts to.
#[derive(Debug)]
pub struct Script {
    /// The queries to run, in the order of the files.
    pub queries: Vec<PlannedQuery>,
    /// The answers of EXPLAIN statements. What is explained is not run.
    pub explanations: Vec<String>,
    /// `laxity.policy`, if a file names one.
    pub policy: Option<PolicySetting>,
    /// What a user should know though nothing is wrong: SET keys that nobody has. With their places.
    pub warnings: Vec<String>,
}

/// One INSERT or printed SELECT, ready to run.
#[derive(Debug)]
pub struct PlannedQuery {
    /// Its operators, with name, target and limits.
    pub dataflow: Dataflow<Stage<ScanSpec, SinkSpec>>,
    /// The plan as text.
    pub explain: String,
    /// What it is, whatever was set for it: what a checkpoint of it must have been of.
    pub shape: Vec<String>,
    /// Where its late rows go, if `laxity.late.table` names a table and the query has a window.
    pub late: Option<LateSink>,
    /// The file that it is from.
    pub file: PathBuf,
    /// First and last line of its statement, from 1.
    pub lines: (u64, u64),
    /// Tables that it looks rows up in.
    pub lookups: Vec<LookupSource>,
    /// Where the files are named that its tables read and write.
    pub paths: Vec<PathPlace>,
    /// What the STATEMENT SET is called of which it is one of several INSERTs.
    pub set: Option<String>,
    /// Its name inside its file.
    plain_name: String,
    /// The table that nobody else has read so far, so that it is planned as one that does nothing with others.
    lone_with: Option<TableKey>,
    /// Tables that nobody else has read so far, so that it reads no more of their ROWs than it wants.
    lone_rows: BTreeSet<TableKey>,
    /// Whether its windows can be aggregated with those of others.
    pub(crate) windows: Windows,
}

/// Where a SQL file names a file of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPlace {
    /// The file of data, as it is opened.
    pub path: PathBuf,
    /// `file:line:column` of the option that names it.
    pub place: String,
}

impl PlannedQuery {
    fn rename(&mut self, name: String) {
        let heading = format!("query {}", self.dataflow.settings.name);
        if let Some(plan) = self.explain.strip_prefix(&heading) {
            self.explain = format!("query {name}{plan}");
        }
        self.dataflow.settings.name = name;
    }
}

/// The side table for rows that come too late for a query's first windowed operator.
#[derive(Debug, Clone)]
pub struct LateSink {
    /// The table.
    pub sink: SinkSpec,
    /// The operator whose late rows go there.
    pub node: NodeId,
    /// How each column of the table is filled.
    pub columns: Vec<LateColumn>,
}

/// What compilation needs to know besides the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileOptions {
    /// The Unix time, in milliseconds, of the engine's `ProcessingTime::ZERO`: what PROCTIME() counts from.
    pub processing_origin_ms: i64,
    /// Approximate queries hold their results against exact ones.
    pub verify_approximate: bool,
}

/// Compiles files, in order, as one script, for an engine that starts now.
///
/// # Errors
/// The first mistake, with its place.
pub fn compile(files: &[SqlFile]) -> Result<Script, SqlError> {
    compile_with(files, CompileOptions { processing_origin_ms: now_ms(), verify_approximate: false })
}

/// Files compiled each for itself.
#[derive(Debug)]
pub struct Compiled {
    /// Of the files that have no mistake.
    pub script: Script,
    /// The first mistake of each file that has one.
    pub errors: Vec<SqlError>,
}

/// Compiles files each with settings and a catalog of its own: nothing that one sets or creates is seen by another,
/// but for `laxity.policy`, of which a process has one. Queries that would bear one name are told apart by that of
/// their file.
pub fn compile_each(files: &[SqlFile], options: CompileOptions) -> Compiled {
    let threads = cores();
    let alike = Alike::default();
    let compiled = on_deep_stack(|| {
        // A file of many queries is compiled by many, many files each by one.
        let within = if files.len() == 1 { threads } else { 1 };
        side_by_side(files, threads, |file| {
            Ok::<_, Infallible>(compile_caught(std::slice::from_ref(file), options, within, &alike))
        })
    });
    let Ok(compiled) = compiled;
    let mut script = Script { queries: vec![], explanations: vec![], policy: None, warnings: vec![] };
    let mut errors = Vec::new();
    for one in compiled {
        let one =
            one.and_then(|one| PolicySetting::unite(&mut script.policy, one.policy.clone()).map(|()| one));
        match one {
            Ok(one) => {
                script.queries.extend(one.queries);
                script.explanations.extend(one.explanations);
                script.warnings.extend(one.warnings);
            }
            Err(error) => errors.push(error),
        }
    }
    tell_apart(&mut script.queries);
    Compiled { script, errors }
}

/// Puts the name of its file before that of a query that bears the same name as one of another file, and the whole
/// path where that is not enough.
fn tell_apart(queries: &mut [PlannedQuery]) {
    let short =
        |query: &PlannedQuery| query.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let long = |query: &PlannedQuery| query.file.with_extension("").display().to_string();
    for prefix in [&short as &dyn Fn(&PlannedQuery) -> String, &long] {
        let mut named = BTreeMap::new();
        for query in queries.iter() {
            *named.entry(query.dataflow.settings.name.clone()).or_insert(0) += 1;
        }
        for query in queries.iter_mut().filter(|query| named[&query.dataflow.settings.name] > 1) {
            let name = format!("{}/{}", prefix(query), query.plain_name);
            query.rename(name);
        }
    }
    // One file given twice.
    let mut taken = BTreeSet::new();
    for query in queries.iter_mut() {
        let name = query.dataflow.settings.name.clone();
        let mut free = name.clone();
        let mut number = 2;
        while !taken.insert(free.clone()) {
            free = format!("{name}-{number}");
            number += 1;
        }
        if free != name {
            query.rename(free);
        }
    }
}

/// Compiles files, in order, as one script.
///
/// # Errors
/// The first mistake, with its place.
pub fn compile_with(files: &[SqlFile], options: CompileOptions) -> Result<Script, SqlError> {
    on_deep_stack(|| compile_caught(files, options, cores(), &Alike::default()))
}

pub(crate) fn compile_caught(
    files: &[SqlFile],
    options: CompileOptions,
    threads: usize,
    alike: &Alike,
) -> Result<Script, SqlError> {
    catch_unwind(AssertUnwindSafe(|| compile_here(files, options, threads, alike)))
        .unwrap_or_else(|panic| Err(of_panic(files, panic.as_ref())))
}

/// A broken invariant, of ours or of a library's, in words that can be reported.
fn of_panic(files: &[SqlFile], panic: &(dyn std::any::Any + Send)) -> SqlError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let file = files.first().map(|file| file.path.as_path()).unwrap_or_else(|| std::path::Path::new(""));
    Fault::internal(NOWHERE, text).into_error(file, "")
}

fn compile_here(
    files: &[SqlFile],
    options: CompileOptions,
    threads: usize,
    alike: &Alike,
) -> Result<Script, SqlError> {
    let words: Vec<OnceCell<Vec<TokenWithSpan>>> = files.iter().map(|_| OnceCell::new()).collect();
    let mut session = Session {
        files,
        texts: files.iter().map(|file| Arc::from(file.text.as_str())).collect(),
        options,
        threads,
        catalog: Catalog::default(),
        templates: Templates::default(),
        alike,
        settings: SessionSettings::default(),
        queries: vec![],
        names: HashSet::new(),
        numbers: HashMap::new(),
        lone: HashMap::new(),
        lone_rows: HashMap::new(),
        explanations: vec![],
        policy: None,
        warnings: vec![],
    };
    for (index, (file, words)) in files.iter().zip(&words).enumerate() {
        session.run_file(index, words).map_err(|fault| {
            let file = fault.file.and_then(|index| files.get(index)).unwrap_or(file);
            fault.into_error(&file.path, &file.text)
        })?;
        let doubts = std::mem::take(&mut session.settings.doubts);
        let told = doubts
            .into_iter()
            .map(|(at, doubt)| format!("{}:{}:{}: {doubt}", file.path.display(), at.line, at.column));
        session.warnings.extend(told);
    }
    Ok(Script {
        queries: session.queries,
        explanations: session.explanations,
        policy: session.policy,
        warnings: session.warnings,
    })
}

#[expect(clippy::disallowed_methods, reason = "the caller did not say when its engine started: now")]
fn now_ms() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

type Done<T> = Result<T, Box<Fault>>;

struct Session<'a> {
    files: &'a [SqlFile],
    /// Of the files, for queries to keep.
    texts: Vec<Arc<str>>,
    options: CompileOptions,
    /// That plan queries.
    threads: usize,
    catalog: Catalog,
    templates: Templates,
    /// May be that of other scripts too.
    alike: &'a Alike,
    settings: SessionSettings,
    queries: Vec<PlannedQuery>,
    /// Of `queries`.
    names: HashSet<String>,
    /// Up to which number a name is taken.
    numbers: HashMap<String, u32>,
    /// Those of `queries` that are alone with their table so far.
    lone: HashMap<TableKey, Lone<'a>>,
    /// Those that read fields of ROWs alone so far.
    lone_rows: HashMap<TableKey, Lone<'a>>,
    explanations: Vec<String>,
    policy: Option<PolicySetting>,
    warnings: Vec<String>,
}

/// A statement being executed: its words, and the file they are from.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: usize,
    tokens: &'a [TokenWithSpan],
    span: Span,
}

/// A query that has its name, and is planned side by side with others.
struct Waiting<'a> {
    statement: Statement,
    place: Place<'a>,
    name: String,
    set: Option<String>,
    settings: SessionSettings,
    /// Tables and views that were declared before it.
    declared: usize,
    /// It is explained and not run.
    explained: bool,
}

/// What is parsed and not planned yet takes memory, some 15 KB a query; threads for these cost a hundredth of them.
const SIDE_BY_SIDE_MAX: usize = 256;

impl<'a> Session<'a> {
    /// `kept`: where the words of the file stay while others are read.
    fn run_file(&mut self, file: usize, kept: &'a OnceCell<Vec<TokenWithSpan>>) -> Done<()> {
        let words = words_to_parse(&self.files[file].text)?;
        let mut waiting = Vec::new();
        let run = self.run_statements(file, kept.get_or_init(|| words), &mut waiting);
        // What stands first in the file is told first.
        self.plan_all(waiting)?;
        run
    }

    fn run_statements(
        &mut self,
        file: usize,
        words: &'a [TokenWithSpan],
        waiting: &mut Vec<Waiting<'a>>,
    ) -> Done<()> {
        let mut parser = StatementParser::new(words);
        while let Some(statement) = parser.next_statement()? {
            let span = statement.span;
            let place = Place { file, tokens: words_within(words, span), span };
            self.run(statement, place, waiting).map_err(|fault| fault.or_at(span.start))?;
        }
        Ok(())
    }

    fn run(&mut self, statement: Statement, place: Place<'a>, waiting: &mut Vec<Waiting<'a>>) -> Done<()> {
        if let StatementKind::Drop { name, .. } = &statement.kind {
            self.plan_all(std::mem::take(waiting))?;
            // Behind it, who writes it or knows it as a view cannot be planned again, and nobody comes to read it.
            if let Some(Relation::Table(table)) = self.catalog.now().get(&name.value) {
                self.lone.remove(&TableKey::of(&table.spec));
                self.lone_rows.remove(&TableKey::of(&table.spec));
            }
            let lone = self.lone.drain().chain(self.lone_rows.drain()).map(|(_, lone)| lone).collect();
            self.plan_again(lone)?;
        }
        match &statement.kind {
            StatementKind::Set { key, value } if key.value == POLICY_KEY => {
                PolicySetting::set(&mut self.policy, key, value, &self.files[place.file])
            }
            StatementKind::Set { key, value } => self.settings.set(key, value),
            StatementKind::Reset(Some(key)) if key.value == POLICY_KEY => {
                self.policy = None;
                Ok(())
            }
            StatementKind::Reset(key) => self.settings.reset(key.as_ref()),
            StatementKind::CreateTable(table) => self.create_table(table, &place),
            StatementKind::CreateView(view) => self.create_view(view, &place),
            StatementKind::Drop { object, name, if_exists } => self.drop_object(*object, name, *if_exists),
            StatementKind::Explain(_)
            | StatementKind::Insert(_)
            | StatementKind::StatementSet(_)
            | StatementKind::Query(_) => {
                let (statement, explained) = match statement.kind {
                    StatementKind::Explain(inner) => (*inner, true),
                    _ => (statement, false),
                };
                for part in insert_each::parts(statement, place, self.settings.name.as_deref()) {
                    let name = self.unique_name(part.name);
                    if !explained {
                        self.names.insert(name.clone());
                    }
                    waiting.push(Waiting {
                        statement: part.statement,
                        place: part.place,
                        name,
                        set: part.set,
                        settings: self.settings.clone(),
                        declared: self.catalog.declared(),
                        explained,
                    });
                    if waiting.len() == SIDE_BY_SIDE_MAX {
                        self.plan_all(std::mem::take(waiting))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Plans queries side by side, and keeps them in their order.
    fn plan_all(&mut self, waiting: Vec<Waiting<'a>>) -> Done<()> {
        let plan = |one: &Waiting| {
            let catalog = self.catalog.at(one.declared);
            let awaits_others = !one.explained;
            let scope = Scope { settings: &one.settings, catalog, awaits_others, ..self.scope() };
            let planned = scope.plan(&one.statement, &one.place, one.name.clone(), one.set.clone());
            planned.map_err(|fault| fault.or_at(one.place.span.start))
        };
        let planned = side_by_side(&waiting, self.threads, plan)?;
        for (one, query) in waiting.into_iter().zip(planned) {
            if one.explained {
                self.explanations.push(query.explain);
                continue;
            }
            let Waiting { place, settings, declared, .. } = one;
            let number = self.queries.len();
            let lone = |settings| Lone { number, place, settings, declared };
            self.lone_rows.extend(query.lone_rows.iter().map(|table| (*table, lone(settings.clone()))));
            if let Some(table) = query.lone_with {
                self.lone.insert(table, lone(settings));
            }
            self.queries.push(query);
        }
        self.plan_joined()
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            files: self.files,
            texts: &self.texts,
            options: self.options,
            catalog: self.catalog.now(),
            templates: &self.templates,
            alike: Some(self.alike),
            settings: &self.settings,
            awaits_others: false,
        }
    }

    fn create_table(&mut self, create: &CreateTable, place: &Place) -> Done<()> {
        if self.is_taken(&create.name, create.if_not_exists)? {
            return Ok(());
        }
        let planner = Planner::new(self.catalog.now(), place.tokens);
        let folder = self.files[place.file].path.parent().map(PathBuf::from).unwrap_or_default();
        let table = table::declared(create, &planner, self.alike, folder, place.file)?;
        let origin = self.scope().origin(place);
        self.catalog.insert(create.name.value.clone(), Relation::Table(Arc::new(table)), origin);
        Ok(())
    }

    fn create_view(&mut self, create: &CreateView, place: &Place) -> Done<()> {
        if self.is_taken(&create.name, create.if_not_exists)? {
            return Ok(());
        }
        let planner = Planner::new(self.catalog.now(), place.tokens);
        let plan = planner.query(&create.query)?;
        let written_out = WrittenOut::of(&create.query, self.catalog.now())?;
        let names: Vec<String> = if create.columns.is_empty() {
            plan.schema().fields().iter().map(|field| field.name().clone()).collect()
        } else if create.columns.len() == plan.schema().fields().len() {
            create.columns.iter().map(|column| column.value.clone()).collect()
        } else {
            return Err(Fault::new(
                SqlErrorKind::Invalid,
                create.columns[0].span.start,
                format!(
                    "the view names {} columns, its query gives {}",
                    create.columns.len(),
                    plan.schema().fields().len()
                ),
            ));
        };
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(Fault::new(
                    SqlErrorKind::Invalid,
                    create.name.span.start,
                    format!("two columns of view '{}' are named '{name}'", create.name.value),
                )
                .hint("name one of them otherwise with AS"));
            }
        }
        // Mistakes of the view are reported here and not where it is read.
        planner.optimize(plan.clone(), &[])?;
        let columns = plan.schema().columns().into_iter().zip(names);
        let exprs: Vec<Expr> = columns.map(|(column, name)| Expr::Column(column).alias(name)).collect();
        let plan = LogicalPlanBuilder::from(plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::build)
            .map_err(|error| planner.fault(error))?;
        let origin = self.scope().origin(place);
        self.catalog.insert(create.name.value.clone(), Relation::View(Arc::new(plan), written_out), origin);
        Ok(())
    }

    fn is_taken(&self, name: &Ident, if_not_exists: bool) -> Done<bool> {
        if self.catalog.now().get(&name.value).is_none() {
            return Ok(false);
        }
        if if_not_exists {
            return Ok(true);
        }
        Err(Fault::new(
            SqlErrorKind::Invalid,
            name.span.start,
            format!("there is already a table or view named '{}'", name.value),
        )
        .hint("write IF NOT EXISTS, or DROP it before"))
    }

    fn drop_object(&mut self, object: DropObject, name: &Ident, if_exists: bool) -> Done<()> {
        match (self.catalog.now().get(&name.value), object) {
            (Some(Relation::Table(_)), DropObject::Table) | (Some(Relation::View(..)), DropObject::View) => {
                self.catalog.remove(&name.value);
                Ok(())
            }
            (Some(Relation::View(..)), DropObject::Table) => {
                Err(Fault::new(SqlErrorKind::Invalid, name.span.start, format!("'{}' is a view", name.value))
                    .hint("write DROP VIEW"))
            }
            (Some(Relation::Table(_)), DropObject::View) => Err(Fault::new(
                SqlErrorKind::Invalid,
                name.span.start,
                format!("'{}' is a table", name.value),
            )
            .hint("write DROP TABLE")),
            (None, _) if if_exists => Ok(()),
            (None, _) => Err(self.scope().unknown_table(name)),
        }
    }

    /// Names identify queries: one that is taken gets a number.
    fn unique_name(&mut self, wanted: String) -> String {
        if !self.names.contains(&wanted) {
            return wanted;
        }
        // Numbers are not tried twice: thousands of queries may write one table.
        let taken = self.numbers.entry(wanted.clone()).or_insert(1);
        loop {
            let name = format!("{wanted}-{}", *taken + 1);
            if !self.names.contains(&name) {
                return name;
            }
            *taken += 1;
        }
    }
}

/// Checks that a table can be written.
fn check_written(table: &Table) -> Done<()> {
    if let Some(at) = table.written_metadata {
        let mut fault = Fault::new(SqlErrorKind::Invalid, at, "this metadata is read and cannot be written")
            .hint("write VIRTUAL behind METADATA in a table that is written too");
        fault.file = Some(table.file);
        return Err(fault);
    }
    validate_sink(&table.sink).map_err(|error| option_fault(table, &error))
}

/// The table's physical columns that an INSERT fills, in the order of the query's columns.
fn sink_columns(table: &Table, named: &[Ident]) -> Done<Vec<usize>> {
    if named.is_empty() {
        return Ok((0..table.sink.schema.fields().len()).collect());
    }
    let mut columns = Vec::new();
    for name in named {
        let index =
            table.sink.schema.index_of(&name.value).map_err(|_| unknown_column(name, &table.sink.schema))?;
        if columns.contains(&index) {
            return Err(Fault::new(
                SqlErrorKind::Invalid,
                name.span.start,
                format!("column '{}' is named twice", name.value),
            ));
        }
        columns.push(index);
    }
    Ok(columns)
}

fn unknown_column(name: &Ident, schema: &SchemaRef) -> Box<Fault> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let fault =
        Fault::new(SqlErrorKind::UnknownColumn, name.span.start, format!("unknown column '{}'", name.value));
    match closest(&name.value, names.iter().copied()) {
        Some(near) => fault.hint(format!("did you mean '{near}'?")),
        None => fault.hint(format!("the columns are {}", names.join(", "))),
    }
}

/// Puts an error about an option at the option.
fn option_fault(table: &Table, error: &OptionError) -> Box<Fault> {
    let WithOptions { entries, at } = &table.options;
    // The line of a secret is not for the terminal.
    let shown = entries.get(&error.key).filter(|_| !laxity_connect::is_secret(&error.key));
    let at = shown.map_or(*at, |option| option.key_at);
    let mut fault = Fault::new(
        SqlErrorKind::Option,
        at,
        format!("table '{}', option '{}': {}", error.table, error.key, error.message),
    );
    fault.file = Some(table.file);
    fault
}
