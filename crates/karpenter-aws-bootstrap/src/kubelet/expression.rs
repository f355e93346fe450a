//! Formulas over an instance type, in CEL: `maxPods: "min(max_pods, vcpus * 20)"`.

use cel::extractors::Arguments;
use cel::{Context, ExecutionError, Program, Value};

/// What a formula can ask about an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the formula's variables")]
pub struct TypeFacts {
    pub vcpus: i64,
    pub memory_mib: i64,
    pub default_enis: i64,
    pub ips_per_eni: i64,
    pub max_pods: i64,
    pub instance_type: String,
}

/// Why a formula cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It cannot be read.
    #[error("{text:?} is neither a quantity nor a formula: {problem}")]
    Invalid {
        /// The formula.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It has no usable value for a type.
    #[error("{text:?} has no usable value for {instance_type}: {problem}")]
    Failed {
        /// The formula.
        text: String,
        /// The type.
        instance_type: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A formula that could be read.
pub struct Expression {
    text: String,
    program: Program,
}

const VARIABLES: &[&str] =
    &["vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods", "instance_type"];
/// A type nobody would find odd, to see of what kind a formula's value is.
const SAMPLE: (i64, i64, i64, i64, i64) = (4, 16_384, 4, 15, 58);

impl Expression {
    /// Reads a formula.
    ///
    /// # Errors
    /// When it is no formula, asks for something unknown, or does not give a number.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let invalid = |problem: String| ExpressionError::Invalid { text: text.to_owned(), problem };
        let program = Program::compile(text).map_err(|error| invalid(error.to_string()))?;
        let used = program.references();
        let unknown = used.variables().into_iter().find(|name| !VARIABLES.contains(name));
        if let Some(name) = unknown {
            return Err(invalid(format!("there is no {name}; use {}", VARIABLES.join(", "))));
        }
        drop(used);
        let expression = Self { text: text.to_owned(), program };
        let (vcpus, memory_mib, default_enis, ips_per_eni, max_pods) = SAMPLE;
        let sample = TypeFacts {
            vcpus,
            memory_mib,
            default_enis,
            ips_per_eni,
            max_pods,
            instance_type: "m5.xlarge".to_owned(),
        };
        match expression.run(&sample) {
            Ok(Value::Int(_) | Value::Float(_)) | Err(ExecutionError::DivisionByZero(_)) => Ok(expression),
            Ok(other) => Err(invalid(format!("it gives a {}, not a number", other.type_of()))),
            // A formula may well divide by what the sample does not have; other errors are mistakes in the formula.
            Err(error) => Err(invalid(error.to_string())),
        }
    }

    /// The number of pods for a type.
    ///
    /// # Errors
    /// When there is no such number.
    pub fn max_pods(&self, facts: &TypeFacts) -> Result<i64, ExpressionError> {
        let pods = self.number(facts)?;
        if i32::try_from(pods).is_ok_and(|pods| pods >= 0) {
            return Ok(pods);
        }
        Err(self.failed(facts, format!("{pods} is not a number of pods")))
    }

    /// The amount of `resource` to reserve on a type, as a quantity.
    ///
    /// # Errors
    /// When there is no such amount.
    pub fn reserved(&self, resource: &str, facts: &TypeFacts) -> Result<String, ExpressionError> {
        let amount = self.number(facts)?;
        if amount < 0 {
            return Err(self.failed(facts, format!("{amount} is negative")));
        }
        // Coarse steps, so that similar types share a launch template.
        Ok(match resource {
            "cpu" => format!("{}m", rounded_up(amount, 10)),
            "memory" => format!("{}Mi", rounded_up(amount, 16)),
            "ephemeral-storage" => format!("{amount}Gi"),
            _ => amount.to_string(),
        })
    }

    fn number(&self, facts: &TypeFacts) -> Result<i64, ExpressionError> {
        match self.run(facts) {
            Ok(Value::Int(number)) => Ok(number),
            Ok(Value::Float(number)) if number.is_finite() => Ok(number as i64),
            Ok(other) => Err(self.failed(facts, format!("{other:?} is not a number"))),
            Err(error) => Err(self.failed(facts, error.to_string())),
        }
    }

    fn failed(&self, facts: &TypeFacts, problem: String) -> ExpressionError {
        ExpressionError::Failed {
            text: self.text.clone(),
            instance_type: facts.instance_type.clone(),
            problem,
        }
    }

    fn run(&self, facts: &TypeFacts) -> Result<Value, ExecutionError> {
        let mut context = Context::default();
        context.add_variable_from_value("vcpus", facts.vcpus);
        context.add_variable_from_value("memory_mib", facts.memory_mib);
        context.add_variable_from_value("default_enis", facts.default_enis);
        context.add_variable_from_value("ips_per_eni", facts.ips_per_eni);
        context.add_variable_from_value("max_pods", facts.max_pods);
        context.add_variable_from_value("instance_type", facts.instance_type.clone());
        context.add_function("min", |Arguments(numbers): Arguments| extreme("min", &numbers, |a, b| a < b));
        context.add_function("max", |Arguments(numbers): Arguments| extreme("max", &numbers, |a, b| a > b));
        self.program.execute(&context)
    }
}

fn rounded_up(amount: i64, step: i64) -> i64 {
    amount.div_euclid(step).saturating_add(i64::from(amount.rem_euclid(step) != 0)).saturating_mul(step)
}

/// The number that wins against all others; of mixed kinds, as a double.
fn extreme(name: &str, numbers: &[Value], wins: fn(f64, f64) -> bool) -> Result<Value, ExecutionError> {
    let value = |value: &Value| match value {
        Value::Int(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        other => Err(ExecutionError::function_error(name, format!("{other:?} is not a number"))),
    };
    let mut best: Option<(&Value, f64)> = None;
    for number in numbers {
        let size = value(number)?;
        if best.is_none_or(|(_, size_of_best)| wins(size, size_of_best)) {
            best = Some((number, size));
        }
    }
    let (best, size) = best.ok_or_else(|| ExecutionError::function_error(name, "it needs numbers"))?;
    let mixed = numbers.iter().any(|number| matches!(number, Value::Float(_)));
    Ok(if mixed { Value::Float(size) } else { best.clone() })
}
