//! Behaviour of the checker: it accepts right plans, and refuses every kind of wrong one.

#![allow(clippy::needless_pass_by_value, reason = "values written in place read better without borrows")]

mod calibration;
mod judgement;
mod mutations;
mod topology;
