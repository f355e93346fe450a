//! kOps' groups in, Karpenter's objects out.
