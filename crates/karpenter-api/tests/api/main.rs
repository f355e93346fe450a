//! Behaviour of the API against upstream's facts: one test binary, one module per subject.

mod hash;
