//! The boundary: bytes, names and plain lists in, the same out. The only file that knows Python.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{self, Backward, Forward, Gradients, Options, Y};
use crate::error::{Error, Kind, Report, Result};
use crate::makers;
use crate::memory::{take_back_gradients, take_back_ops};
use crate::session::{Asked, Hook, Named, Scope, DEPTH_LIMIT};
use crate::wire::fields;

/// Nets of fewer bytes are answered faster than another thread could make use of the interpreter.
const DETACH_FROM: usize = 1 << 16;

/// Operators are handed back in pieces of so many bytes.
const PIECE: usize = 1 << 16;

/// A name that is not UTF-8 stands as surrogate escapes in Python.
fn to_str<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, name).or_else(|_| {
        let name = PyBytes::new(py, name);
        Ok(name.call_method1("decode", ("utf-8", "surrogateescape"))?.cast_into()?)
    })
}

/// Compiled protobufs have names that are not UTF-8 as `bytes`.
fn from_str(name: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(name) = name.cast::<PyBytes>() {
        return Ok(name.as_bytes().to_vec());
    }
    let name = name.cast::<PyString>()?;
    match name.to_cow() {
        Ok(name) => Ok(name.into_owned().into_bytes()),
        Err(_) => {
            let bytes = name.call_method1("encode", ("utf-8", "surrogateescape"))?;
            Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
        }
    }
}

fn from_gradient(gradient: &Bound<'_, PyAny>) -> PyResult<Named> {
    if gradient.is_none() {
        return Ok(Named::None);
    }
    match gradient.cast::<PyTuple>() {
        Ok(pair) => Ok(Named::Sparse(from_str(&pair.get_item(0)?)?, from_str(&pair.get_item(1)?)?)),
        Err(_) => Ok(Named::Dense(from_str(gradient)?)),
    }
}

fn to_gradient<'py>(py: Python<'py>, gradient: &Named) -> PyResult<Bound<'py, PyAny>> {
    Ok(match gradient {
        Named::None => py.None().into_bound(py),
        Named::Dense(name) => to_str(py, name)?.into_any(),
        Named::Sparse(indices, values) => {
            (to_str(py, indices)?, to_str(py, values)?).into_pyobject(py)?.into_any()
        }
    })
}

fn from_gradients(gradients: &Bound<'_, PyAny>) -> PyResult<Vec<Named>> {
    gradients.try_iter()?.map(|gradient| from_gradient(&gradient?)).collect()
}

fn to_gradients<'py>(py: Python<'py>, gradients: &[Named]) -> PyResult<Bound<'py, PyList>> {
    let gradients: PyResult<Vec<_>> =
        gradients.iter().map(|gradient| to_gradient(py, gradient)).collect();
    PyList::new(py, gradients?)
}

fn to_messages<'py>(py: Python<'py>, messages: &[Vec<u8>]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, messages.iter().map(|message| PyBytes::new(py, message)))
}

/// The makers that somebody has in Python: a `ctrlgrad.gradients.Makers`.
struct Makers {
    ask: Py<PyAny>,
    types: FxHashSet<Vec<u8>>,
    /// Tells which operator types have a maker that goes before ours, and what it said.
    goes_first: Option<Py<PyAny>>,
    first: FxHashMap<Vec<u8>, bool>,
}

impl Makers {
    fn new(makers: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Self>> {
        let Some(makers) = makers else { return Ok(None) };
        let types = makers.getattr("types")?.try_iter()?;
        Ok(Some(Self {
            ask: makers.getattr("ask")?.unbind(),
            types: types.map(|name| from_str(&name?)).collect::<PyResult<_>>()?,
            goes_first: makers.getattr("goes_first")?.extract()?,
            first: FxHashMap::default(),
        }))
    }
}

impl Hook for Makers {
    fn knows(&self, op_type: &[u8]) -> bool {
        self.types.contains(op_type)
    }

    fn goes_first(&mut self, op_type: &[u8], op: &[u8]) -> Result<bool> {
        let Some(goes_first) = &self.goes_first else { return Ok(false) };
        if let Some(first) = self.first.get(op_type) {
            return Ok(*first);
        }
        let asked = Python::attach(|py| {
            let arguments = (to_str(py, op_type)?, PyBytes::new(py, op));
            goes_first.bind(py).call1(arguments)?.extract::<bool>()
        });
        let first = asked.map_err(|raised| Error::raised(Box::new(raised)))?;
        self.first.insert(op_type.to_vec(), first);
        Ok(first)
    }

    fn ask(&mut self, op: &[u8], g_output: &[Named], path: &[u32]) -> Result<Option<Asked>> {
        let asked = Python::attach(|py| -> PyResult<_> {
            let arguments =
                (PyBytes::new(py, op), to_gradients(py, g_output)?, PyTuple::new(py, path)?);
            let answer = self.ask.bind(py).call1(arguments)?;
            if answer.is_none() {
                return Ok(None);
            }
            let (ops, g_input): (Bound<'_, PyAny>, Bound<'_, PyAny>) = answer.extract()?;
            let ops: PyResult<Vec<Vec<u8>>> =
                ops.try_iter()?.map(|op| Ok(op?.cast::<PyBytes>()?.as_bytes().to_vec())).collect();
            Ok(Some((ops?, from_gradients(&g_input)?)))
        });
        asked.map_err(|raised| Error::raised(Box::new(raised)))
    }
}

fn scope_of(scope: Option<&Bound<'_, PyAny>>) -> PyResult<Scope> {
    let Some(scope) = scope else { return Ok(Scope::default()) };
    let (name, device): (Bound<'_, PyAny>, Option<Vec<u8>>) = scope.extract()?;
    Ok(Scope { name: from_str(&name)?, device })
}

/// Runs pure work without the interpreter where that is worth it. A panic becomes an error.
fn run<T: Send>(
    py: Python<'_>,
    size: usize,
    makers: Option<Makers>,
    work: impl FnOnce(&mut dyn Hook) -> Result<T> + Send,
) -> PyResult<T> {
    let guarded = move || {
        let mut makers = makers;
        let mut nothing = crate::session::NoHook;
        let hook: &mut dyn Hook = match &mut makers {
            Some(makers) => makers,
            None => &mut nothing,
        };
        catch_unwind(AssertUnwindSafe(|| work(hook))).unwrap_or_else(|panic| Err(panicked(&*panic)))
    };
    let answer = if size >= DETACH_FROM { py.detach(guarded) } else { guarded() };
    answer.map_err(|error| raise(py, error))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    Error::new(Kind::Internal, format!("a defect of ctrlgrad, not of the net: {what}"))
        .hint("please report it with the net, at https://github.com/ctrlgrad/ctrlgrad/issues")
}

/// `ctrlgrad.errors.build`.
static BUILD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for an error: its class is made in Python, where it has several bases.
fn raise(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    let Report { kind, hint, path, op_type, blob, versions, raised, .. } = error.into_report();
    if let Some(raised) = raised {
        return match raised.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(_) => PyTypeError::new_err("a hook raised something that is no exception"),
        };
    }
    let built = BUILD
        .get_or_try_init(py, || {
            PyResult::Ok(py.import("ctrlgrad.errors")?.getattr("build")?.unbind())
        })
        .and_then(|build| {
            let name = |name: Option<Vec<u8>>| name.map(|name| to_str(py, &name)).transpose();
            let hint = Some(hint).filter(|hint| !hint.is_empty());
            let path = PyTuple::new(py, path)?;
            build.bind(py).call1((
                kind.word(),
                text,
                path,
                name(op_type)?,
                name(blob)?,
                versions,
                hint,
            ))
        });
    match built {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A net, or its operators, as they are handed over.
enum Handed<'py> {
    Net(Bound<'py, PyBytes>),
    Ops(Vec<Bound<'py, PyBytes>>),
}

impl<'py> Handed<'py> {
    fn from(net: &Bound<'py, PyAny>) -> PyResult<Self> {
        match net.cast::<PyBytes>() {
            Ok(net) => Ok(Self::Net(net.clone())),
            Err(_) => Ok(Self::Ops(ops_of(net)?)),
        }
    }
}

fn ops_of<'py>(ops: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    ops.try_iter()?.map(|op| Ok(op?.cast_into::<PyBytes>()?)).collect()
}

fn targets(ys: &Bound<'_, PyAny>) -> PyResult<Vec<Y>> {
    if let Ok(texts) = ys.cast::<PyTuple>() {
        let (names, gradients): (Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>) =
            texts.extract()?;
        return Ok(plain_targets(
            names.as_bytes(),
            gradients.as_ref().map(PyBytesMethods::as_bytes),
        ));
    }
    ys.try_iter()?
        .map(|y| {
            let (name, gradient, in_scope): (Bound<'_, PyAny>, Bound<'_, PyAny>, bool) =
                y?.extract()?;
            Ok(Y { name: from_str(&name)?, gradient: from_gradient(&gradient)?, in_scope })
        })
        .collect()
}

/// Names, and gradients if there are any, with a zero byte between each two.
fn plain_targets(names: &[u8], gradients: Option<&[u8]>) -> Vec<Y> {
    let mut gradients = gradients.map(|gradients| gradients.split(|byte| *byte == 0));
    let names = names.split(|byte| *byte == 0);
    names
        .map(|name| {
            let gradient = gradients.as_mut().and_then(Iterator::next).unwrap_or_default();
            let gradient = match gradient {
                [] => Named::None,
                gradient => Named::Dense(gradient.to_vec()),
            };
            Y { name: name.to_vec(), gradient, in_scope: false }
        })
        .collect()
}

fn names(names: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    names.try_iter()?.map(|name| from_str(&name?)).collect()
}

fn fill(map: &Bound<'_, PyDict>, gradients: &Gradients) -> PyResult<()> {
    let py = map.py();
    for (blob, first, second) in gradients.iter() {
        let (blob, first) = (to_str(py, blob)?, to_str(py, first)?);
        match second {
            None => map.set_item(blob, first)?,
            Some(second) => map.set_item(blob, (first, to_str(py, second)?))?,
        }
    }
    Ok(())
}

/// A net of operators as several, one behind the other. Whoever keeps one of the operators as a message
/// keeps its piece, and no more.
fn pieces<'py>(py: Python<'py>, net: &[u8]) -> PyResult<Bound<'py, PyList>> {
    let pieces = PyList::empty(py);
    let (mut start, mut end) = (0, 0);
    for op in fields(net).filter_map(Result::ok) {
        end += op.raw.len();
        if end - start >= PIECE {
            pieces.append(PyBytes::new(py, &net[start..end]))?;
            start = end;
        }
    }
    if start < end {
        pieces.append(PyBytes::new(py, &net[start..end]))?;
    }
    Ok(pieces)
}

/// See `_core.pyi`, here and below.
#[pyfunction]
#[pyo3(signature = (net, ys, grads, makers, scope, *, known=false, no_grad=None, wrt=None))]
#[allow(clippy::too_many_arguments)]
fn backward<'py>(
    py: Python<'py>,
    net: &Bound<'py, PyAny>,
    ys: &Bound<'py, PyAny>,
    grads: &Bound<'py, PyDict>,
    makers: Option<&Bound<'py, PyAny>>,
    scope: Option<&Bound<'py, PyAny>>,
    known: bool,
    no_grad: Option<&Bound<'py, PyAny>>,
    wrt: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let no_grad = no_grad.map(names).transpose()?.unwrap_or_default();
    let options = Options { known, no_grad, wrt: wrt.map(names).transpose()? };
    let ys = targets(ys)?;
    let handed = Handed::from(net)?;
    let ops: Vec<&[u8]> = match &handed {
        Handed::Net(_) => Vec::new(),
        Handed::Ops(ops) => ops.iter().map(PyBytesMethods::as_bytes).collect(),
    };
    let (forward, size) = match &handed {
        Handed::Net(net) => (Forward::Net(net.as_bytes()), net.as_bytes().len()),
        Handed::Ops(_) => (Forward::Ops(&ops), ops.iter().map(|op| op.len()).sum()),
    };
    let (makers, scope) = (Makers::new(makers)?, scope_of(scope)?);
    let answer = run(py, size, makers, |hook| api::backward(forward, &ys, &options, &scope, hook))?;
    let Backward { ops: written, gradients } = answer;
    let ops = match handed {
        Handed::Net(_) if written.is_whole() => PyBytes::new(py, written.written()).into_any(),
        Handed::Net(net) => {
            let fill = |to: &mut [u8]| {
                written.put_together(net.as_bytes(), to);
                Ok(())
            };
            PyBytes::new_with(py, written.position(), fill)?.into_any()
        }
        Handed::Ops(_) => pieces(py, written.written())?.into_any(),
    };
    take_back_ops(written);
    fill(grads, &gradients)?;
    take_back_gradients(gradients);
    Ok(ops)
}

type OpsAndGradients<'py> = (Bound<'py, PyList>, Bound<'py, PyList>);

#[pyfunction]
#[pyo3(signature = (op, g_output, *, makers, scope))]
fn operator_gradient<'py>(
    py: Python<'py>,
    op: &Bound<'py, PyBytes>,
    g_output: &Bound<'py, PyAny>,
    makers: Option<&Bound<'py, PyAny>>,
    scope: Option<&Bound<'py, PyAny>>,
) -> PyResult<OpsAndGradients<'py>> {
    one_operator(py, None, op, g_output, makers, scope)
}

#[pyfunction]
#[pyo3(signature = (kind, op, g_output, *, makers, scope))]
fn control_gradient<'py>(
    py: Python<'py>,
    kind: &str,
    op: &Bound<'py, PyBytes>,
    g_output: &Bound<'py, PyAny>,
    makers: Option<&Bound<'py, PyAny>>,
    scope: Option<&Bound<'py, PyAny>>,
) -> PyResult<OpsAndGradients<'py>> {
    one_operator(py, Some(kind), op, g_output, makers, scope)
}

fn one_operator<'py>(
    py: Python<'py>,
    kind: Option<&str>,
    op: &Bound<'py, PyBytes>,
    g_output: &Bound<'py, PyAny>,
    makers: Option<&Bound<'py, PyAny>>,
    scope: Option<&Bound<'py, PyAny>>,
) -> PyResult<OpsAndGradients<'py>> {
    let g_output = from_gradients(g_output)?;
    let op = op.as_bytes();
    let (makers, scope) = (Makers::new(makers)?, scope_of(scope)?);
    let work = |hook: &mut dyn Hook| api::operator_gradient(op, &g_output, kind, &scope, hook);
    let (ops, g_input) = run(py, op.len(), makers, work)?;
    Ok((to_messages(py, &ops)?, to_gradients(py, &g_input)?))
}

#[pyfunction]
fn outline<'py>(
    py: Python<'py>,
    op_type: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
    outputs: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyAny>,
    device: Option<&[u8]>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (inputs, outputs, arguments) = (names(inputs)?, names(outputs)?, names(arguments)?);
    let wire = crate::outline::outline(&from_str(op_type)?, &inputs, &outputs, &arguments, device);
    Ok(PyBytes::new(py, &wire))
}

#[pyfunction]
fn may_lack_fields(ops: &Bound<'_, PyList>) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        if crate::outline::may_lack_fields(op.cast::<PyBytes>()?.as_bytes()) {
            found.push(at);
        }
    }
    Ok(found)
}

#[pyfunction]
fn versions(py: Python<'_>, ops: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<u32>, Vec<u32>)>> {
    let ops = ops_of(ops)?;
    let ops: Vec<&[u8]> = ops.iter().map(PyBytesMethods::as_bytes).collect();
    run(py, 0, None, |_| api::versions(&ops))
}

type Traced<'py> = (Bound<'py, PyList>, Bound<'py, PyDict>, Bound<'py, PyDict>, Bound<'py, PyList>);

#[pyfunction]
#[pyo3(signature = (ops, ys, *, makers, scope))]
fn trace<'py>(
    py: Python<'py>,
    ops: &Bound<'py, PyAny>,
    ys: &Bound<'py, PyAny>,
    makers: Option<&Bound<'py, PyAny>>,
    scope: Option<&Bound<'py, PyAny>>,
) -> PyResult<Traced<'py>> {
    let ys = targets(ys)?;
    let ops = ops_of(ops)?;
    let ops: Vec<&[u8]> = ops.iter().map(PyBytesMethods::as_bytes).collect();
    let (makers, scope) = (Makers::new(makers)?, scope_of(scope)?);
    let traced = run(py, 0, makers, |hook| crate::trace::trace(&ops, &ys, &scope, hook))?;
    let frontier = PyDict::new(py);
    for (blob, version) in &traced.frontier {
        frontier.set_item(to_str(py, blob)?, version)?;
    }
    let generators = PyList::empty(py);
    for (blob, version, entries) in &traced.producers {
        let shown = PyList::empty(py);
        for entry in entries {
            let gradient = to_gradient(py, &entry.gradient)?;
            let (op, at) = entry.made.unzip();
            match &entry.gradient {
                Named::Sparse(..) => {
                    let (values_op, values_at) = entry.made_values.unzip();
                    let (at, values_at) = (at.unwrap_or(0), values_at.unwrap_or(0));
                    shown.append((
                        "sparse",
                        op,
                        at,
                        values_op,
                        values_at,
                        gradient,
                        entry.forward,
                    ))?;
                }
                _ => shown.append(("dense", op, at.unwrap_or(0), gradient, entry.forward))?,
            }
        }
        generators.append((to_str(py, blob)?, version, shown))?;
    }
    let gradients = PyDict::new(py);
    fill(&gradients, &traced.gradients)?;
    Ok((to_messages(py, &traced.ops)?, gradients, frontier, generators))
}

#[pyfunction]
fn get_ssa<'py>(
    py: Python<'py>,
    net: &Bound<'py, PyBytes>,
    blob_versions: &Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyDict>)> {
    let mut versions = Vec::with_capacity(blob_versions.len());
    for (name, version) in blob_versions {
        versions.push((from_str(&name)?, version.extract()?));
    }
    let net = net.as_bytes();
    let (ssa, versions) = run(py, net.len(), None, |_| api::get_ssa(net, &versions))?;
    let named = |blobs: &[api::Versioned]| -> PyResult<Bound<'py, PyList>> {
        let blobs: PyResult<Vec<_>> =
            blobs.iter().map(|(name, version)| Ok((to_str(py, name)?, version))).collect();
        PyList::new(py, blobs?)
    };
    let ops = PyList::empty(py);
    for (inputs, outputs) in &ssa {
        ops.append((named(inputs)?, named(outputs)?))?;
    }
    let newest = PyDict::new(py);
    for (name, version) in &versions {
        newest.set_item(to_str(py, name)?, version)?;
    }
    Ok((ops, newest))
}

#[pyfunction]
fn has_gradient(op_type: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    Ok(makers::has_gradient(&from_str(op_type)?))
}

#[pyfunction]
#[pyo3(name = "makers")]
fn every_maker() -> Vec<(&'static str, &'static str)> {
    makers::every().map(|(name, _)| (name, makers::has_gradient(name.as_bytes()))).collect()
}

#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    info.set_item("target", format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS))?;
    info.set_item("reference", "Caffe2 of torch 1.10.2")?;
    Ok(info)
}

#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DEPTH_LIMIT", DEPTH_LIMIT)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(backward, module)?)?;
    module.add_function(wrap_pyfunction!(operator_gradient, module)?)?;
    module.add_function(wrap_pyfunction!(control_gradient, module)?)?;
    module.add_function(wrap_pyfunction!(outline, module)?)?;
    module.add_function(wrap_pyfunction!(may_lack_fields, module)?)?;
    module.add_function(wrap_pyfunction!(versions, module)?)?;
    module.add_function(wrap_pyfunction!(trace, module)?)?;
    module.add_function(wrap_pyfunction!(get_ssa, module)?)?;
    module.add_function(wrap_pyfunction!(has_gradient, module)?)?;
    module.add_function(wrap_pyfunction!(every_maker, module)?)?;
    module.add_function(wrap_pyfunction!(build_info, module)?)
}
