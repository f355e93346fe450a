//! The client from outside: what it sends, and what it makes of answers. Nothing leaves the process, except for one test over loopback.

mod calls;
mod credentials;
mod fake;
mod objects;
mod signatures;
