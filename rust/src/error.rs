//! What can go wrong, and where.
//!
//! Every refusal names the place (operator indices from the outermost net inwards, operator type,
//! blob) and what to do about it. The texts are short whatever the size of the net.

use std::any::Any;
use std::fmt;

/// The result of anything that can be refused.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a refusal. Each has an exception class of its own in Python.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The bytes are no net.
    Malformed,
    /// Nets are nested deeper than the limit.
    TooDeep,
    /// Nobody knows a gradient for this operator type.
    NoMaker,
    /// The operator type is known to have no gradient, and asking for one is an error.
    Forbidden,
    /// The gradient was meant to exist and was never written.
    Unimplemented,
    /// The operator breaks its schema.
    Schema,
    /// The maker does not take this operator, or an output gradient of this form.
    Refused,
    /// A blob is needed in a version that is gone.
    Version,
    /// A gradient would overwrite a blob before it has been read.
    Overwritten,
    /// A gradient operator reads what neither the operator nor its gradient has.
    OutOfScope,
    /// Nobody reads the output of a `StopGradient`.
    Orphan,
    /// The blob bindings of a Do are not what they must be.
    Bindings,
    /// The operator is no Do, If or While as it must be.
    Control,
    /// The gradient of a Do, If or While cannot be expressed.
    Inexpressible,
    /// Gradients that are to be added live on different devices.
    Devices,
    /// A registered function gives more gradients than there are inputs.
    GradientCount,
    /// Indices and values of a sparse gradient are made on different devices.
    SparseDevices,
    /// Dense and sparse gradients of one blob meet.
    Mixed,
    /// A gradient that is handed on has the name that the sum must have.
    Conflict,
    /// A blob that stands nowhere in the net was named.
    UnknownBlob,
    /// The call itself makes no sense.
    Argument,
    /// A fault of this package.
    Internal,
}

impl Kind {
    /// The word by which the Python side finds the exception class.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Malformed => "malformed",
            Kind::TooDeep => "too_deep",
            Kind::NoMaker => "no_maker",
            Kind::Forbidden => "forbidden",
            Kind::Unimplemented => "unimplemented",
            Kind::Schema => "schema",
            Kind::Refused => "refused",
            Kind::Version => "version",
            Kind::Overwritten => "overwritten",
            Kind::OutOfScope => "out_of_scope",
            Kind::Orphan => "orphan",
            Kind::Bindings => "bindings",
            Kind::Control => "control",
            Kind::Inexpressible => "inexpressible",
            Kind::Devices => "devices",
            Kind::GradientCount => "gradient_count",
            Kind::SparseDevices => "sparse_devices",
            Kind::Mixed => "mixed",
            Kind::Conflict => "conflict",
            Kind::UnknownBlob => "unknown_blob",
            Kind::Argument => "argument",
            Kind::Internal => "internal",
        }
    }
}

/// A refusal. Boxed, so that a `Result` stays small on the paths where nothing is wrong.
pub struct Error(Box<Report>);

/// What an [`Error`] says.
pub struct Report {
    /// What kind of refusal it is.
    pub kind: Kind,
    /// One sentence: what is wrong.
    pub what: String,
    /// One sentence: what to do about it. May be empty.
    pub hint: String,
    /// Operator indices, outermost net first.
    pub path: Vec<u32>,
    /// The type of the operator at `path`.
    pub op_type: Option<Vec<u8>>,
    /// The blob it is about.
    pub blob: Option<Vec<u8>>,
    /// The version that is needed, and the one that there is.
    pub versions: Option<(u32, u32)>,
    /// What a hook raised; then it is the whole error, and the rest is not looked at.
    pub raised: Option<Box<dyn Any + Send>>,
}

impl Error {
    /// A refusal of this kind.
    #[cold]
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self(Box::new(Report {
            kind,
            what: what.into(),
            hint: String::new(),
            path: Vec::new(),
            op_type: None,
            blob: None,
            versions: None,
            raised: None,
        }))
    }

    /// The bytes are no net.
    #[cold]
    pub fn malformed(what: &str) -> Self {
        Self::new(Kind::Malformed, format!("these bytes are no serialized Caffe2 net: {what}"))
            .hint("pass the bytes of NetDef.SerializeToString(), whole and uncompressed")
    }

    /// What somebody else's function raised, to be passed on unchanged.
    #[cold]
    pub fn raised(what: Box<dyn Any + Send>) -> Self {
        let mut error = Self::new(Kind::Internal, "a gradient function raised");
        error.0.raised = Some(what);
        error
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// Names the blob.
    #[must_use]
    pub fn blob(mut self, blob: &[u8]) -> Self {
        self.0.blob = Some(blob.to_vec());
        self
    }

    /// Names the version that is needed and the one that there is.
    #[must_use]
    pub fn versions(mut self, needed: u32, present: u32) -> Self {
        self.0.versions = Some((needed, present));
        self
    }

    /// Names the operator that it happened at, seen from the net around it. The innermost operator's
    /// type stays.
    #[must_use]
    pub fn at(mut self, index: usize, op_type: &[u8]) -> Self {
        if self.0.raised.is_none() {
            self.0.path.insert(0, index as u32);
            self.0.op_type.get_or_insert_with(|| op_type.to_vec());
        }
        self
    }

    /// What is wrong.
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// The same, owned.
    pub fn into_report(self) -> Report {
        *self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { what, hint, path, op_type, .. } = &*self.0;
        if !path.is_empty() {
            f.write_str("operator ")?;
            let shown = path.len().min(12);
            for (at, index) in path[path.len() - shown..].iter().enumerate() {
                write!(f, "{}{index}", if at > 0 || shown < path.len() { "/" } else { "" })?;
            }
            if let Some(op_type) = op_type {
                write!(f, " ({})", shown_name(op_type))?;
            }
            f.write_str(": ")?;
        }
        f.write_str(what)?;
        if !hint.is_empty() {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// A name as it is shown in a text: what is not UTF-8 replaced, very long ones shortened in the
/// middle.
pub fn shown_name(name: &[u8]) -> String {
    const ENDS: usize = 60;
    let text = String::from_utf8_lossy(name);
    if text.chars().count() <= 2 * ENDS + 3 {
        return text.into_owned();
    }
    let head: String = text.chars().take(ENDS).collect();
    let tail: Vec<char> = text.chars().rev().take(ENDS).collect();
    format!("{head}...{}", tail.into_iter().rev().collect::<String>())
}
