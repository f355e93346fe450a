//! Behaviour of the simulated cloud, asked in process by a signer of the tests' own.

mod cloud;
mod credentials;
mod disturbances;
mod machines;
mod nodes;
