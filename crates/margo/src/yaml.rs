//! The one place that knows the YAML library. Bounded in size, depth, nodes and aliases.
