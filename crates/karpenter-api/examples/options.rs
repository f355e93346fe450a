//! Prints the reference of the controller's options: the contents of `docs/options.md`.

fn main() {
    print!("{}", karpenter_api::options::reference());
}
