//! The program as its users see it: exit codes, texts and bytes.

mod solve;
