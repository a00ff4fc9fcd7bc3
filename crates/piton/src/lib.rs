//! The command line of Piton: recipes, progress and reports.
