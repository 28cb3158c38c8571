//! Public fault reports of others, as small cases on our own code. A test is named after the repository and the number of the
//! report; `docs/reports.md` lists all reports and the tests that cover them, and a test here compares the two.

#[path = "reports/engine.rs"]
mod engine;
#[path = "reports/files.rs"]
mod files;
#[path = "reports/listed.rs"]
mod listed;
#[path = "reports/scripted.rs"]
mod scripted;
