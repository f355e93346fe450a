//! The karpenter binary.
fn main() {}
