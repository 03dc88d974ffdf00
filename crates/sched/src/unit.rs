/// What waits and is granted as one. One worker holds a unit at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Every operator instance on its own.
    #[default]
    Operator,
    /// All operators of a query together (Aurora's superbox, Klink's query).
    Query,
}

impl Unit {
    /// Units are queries, not operators.
    pub fn is_query(self) -> bool {
        self != Unit::Operator
    }
}
