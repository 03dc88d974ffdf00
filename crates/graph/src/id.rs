macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a dense table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A query: one tenant's dataflow job. Dense, never reused within a process.
    QueryId
}
id! {
    /// An operator instance: one parallel copy of one node. Dense over all queries of a process, and given again once
    /// nothing knows it any more.
    OperatorId
}
id! {
    /// A worker: one thread that executes operators.
    WorkerId
}
