"""Makes the extension module penstock._native: libpenstock for Python, by cffi in API mode.

The declarations come from the header of the library itself, so that they cannot differ. From each operation of the
header, a function that ends with `const penstock_call *call`, this script makes a function penstock_py_NAME: it takes
handles in place of runtimes, mounts and files, and a limit of time and an operation in place of the call
(native/operation.h). Its first step is penstock_py_begin(), its last one penstock_py_wait().

Environment, each of them optional:
  PENSTOCK_INCLUDE_DIR  the folder that has penstock/penstock.h; otherwise that of this checkout, or of pkg-config
  PENSTOCK_LIBRARY_DIR  the folder that has libpenstock.so; otherwise the one of pkg-config, or the system's folders
"""

import os
import re
import shutil
import subprocess

from cffi import FFI

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATION = os.path.join(HERE, "native", "operation.h")

# What Python uses of native/operation.h.
DECLARATIONS = """
#define PENSTOCK_PY_WAITING ...
#define PENSTOCK_PY_ENDED ...
typedef struct penstock_py_handle { ...; } penstock_py_handle;
typedef struct penstock_py_queue { ...; } penstock_py_queue;
typedef struct penstock_py_log { ...; } penstock_py_log;
typedef struct penstock_py_operation {
  int64_t result;
  char error[1024];
  uint64_t id;
  ...;
} penstock_py_operation;
typedef struct penstock_py_message {
  int level;
  char module[64];
  char text[1024];
} penstock_py_message;
void penstock_py_handle_begin(penstock_py_handle *handle);
void penstock_py_handle_take(penstock_py_handle *handle, void **place);
int penstock_py_handle_is_open(penstock_py_handle *handle);
int penstock_py_handle_is_of_this_process(const penstock_py_handle *handle);
penstock_py_operation *penstock_py_queue_take(penstock_py_queue *queue);
penstock_py_operation *penstock_py_operation_new(penstock_py_queue *queue);
void penstock_py_operation_free(penstock_py_operation *operation);
int penstock_py_wait(penstock_py_operation *operation);
void penstock_py_abandon(penstock_py_operation *operation);
void penstock_py_cancel(penstock_py_operation *operation);
int penstock_py_take_progress(penstock_py_operation *operation, uint64_t *done, uint64_t *total);
void penstock_py_progress(void *context, uint64_t done, uint64_t total);
void penstock_py_log_begin(penstock_py_log *log);
int penstock_py_log_take(penstock_py_log *log, penstock_py_message *message, uint64_t *dropped);
int penstock_py_log_wait(penstock_py_log *log);
void penstock_py_log_end(penstock_py_log *log);
int penstock_py_runtime_new(unsigned threads, unsigned blocking_threads, penstock_py_log *log, int log_level,
                            const char *rdma, const char *rdma_device, penstock_runtime **runtime);
int penstock_py_runtime_free(penstock_py_handle *handle);
int penstock_py_runtime_fd(penstock_py_handle *handle);
int penstock_py_runtime_dispatch(penstock_py_handle *handle, int timeout_ms);
"""

# The types whose objects have a handle in Python, and the operations that free them.
HANDLED = ("penstock_runtime", "penstock_mount", "penstock_file")
CLOSING = ("penstock_mount_close", "penstock_close")
OPERATION_END = re.compile(r",\s*const penstock_call \*call$")


class Header:
    """The declarations of penstock.h."""

    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).replace("\\\n", " ")
        macros = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(PENSTOCK_\w+)(?!\w|\()[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
        self.initial = sorted(name for name in macros if name.endswith("_INIT"))
        self.constants = sorted(name for name, value in macros.items() if value and name not in self.initial)
        text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
        text = re.sub(r"[ \t]*\*[ \t]*", " *", text)  # declarations have one form, whatever the header's style is
        marked = text.count("PENSTOCK_API ")
        text = re.sub(r"\bPENSTOCK_(API|BEGIN_DECLS|END_DECLS)\b", "", text)
        self.text = "\n".join(line for line in map(str.rstrip, text.splitlines()) if line)
        # Nothing of a structure looks like a function: a name, parameters, a semicolon.
        self.functions = [(self.plain(result), name, self.plain(parameters)) for result, name, parameters in re.findall(
            r"(?:^|(?<=[;}]))\s*((?:const )?\w+[ \n*]+)(penstock_\w+)\(([^()]*)\);", self.text)]
        assert len(self.functions) == marked, f"{len(self.functions)} functions were found, {marked} have the mark PENSTOCK_API"

    @staticmethod
    def plain(text):
        return re.sub(r"\s+", " ", text).strip()

    @property
    def operations(self):
        """Returns (name, parameters) of each operation, without the last parameter."""
        return [(name, OPERATION_END.sub("", parameters).split(", ")) for _, name, parameters in self.functions
                if OPERATION_END.search(parameters)]


def initial_type(macro):
    """Returns the type that a macro such as PENSTOCK_SPACE_INIT initializes."""
    return macro[:-len("_INIT")].lower()


def operation_parameters(parameters):
    """Returns the parameters of the function that Python calls."""
    own = [*parameters]
    handled, _, name = own[0].partition(" *")
    assert handled in HANDLED, f"the first parameter of an operation is {own[0]}"
    own[0] = f"penstock_py_handle *{name}"
    return ", ".join([*own, "int64_t timeout_ms", "penstock_py_operation *operation"])


def declarations(header):
    """Returns what cffi parses."""
    parts = [*(f"#define {name} ..." for name in header.constants), header.text, DECLARATIONS]
    parts += [f"void penstock_py_initialize_{initial_type(macro)}({initial_type(macro)} *value);" for macro in header.initial]
    parts += [f"int penstock_py_{name[len('penstock_'):]}({operation_parameters(parameters)});"
              for name, parameters in header.operations]
    return "\n".join(parts)


def source(header):
    """Returns the C code of the module."""
    with open(OPERATION, encoding="utf-8") as file:
        parts = [file.read()]
    for macro in header.initial:
        kind = initial_type(macro)
        parts.append(f"static void penstock_py_initialize_{kind}({kind} *value) {{ *value = ({kind}){macro}; }}")
    for name, parameters in header.operations:
        handled = parameters[0].partition(" *")[0]
        names = [re.search(r"\w+$", parameter).group() for parameter in parameters]
        arguments = ", ".join([f"({handled} *)object", *names[1:], "&operation->call"])
        parts.append(f"""
static int penstock_py_{name[len('penstock_'):]}({operation_parameters(parameters)}) {{
  void *object = penstock_py_begin(operation, {names[0]}, {int(name in CLOSING)}, timeout_ms);
  if (object != NULL) penstock_py_started(operation, {name}({arguments}));
  return penstock_py_wait(operation);
}}""")
    return "\n".join(parts)


def pkg_config(*arguments):
    """Returns what pkg-config says about the installed library, or an empty text."""
    if shutil.which("pkg-config") is None:
        return ""
    done = subprocess.run(["pkg-config", *arguments, "penstock"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def include_directory():
    candidates = [os.environ.get("PENSTOCK_INCLUDE_DIR"), os.path.join(HERE, "..", "include"),
                  pkg_config("--variable=includedir"), "/usr/include", "/usr/local/include"]
    for directory in filter(None, candidates):
        if os.path.exists(os.path.join(directory, "penstock", "penstock.h")):
            return os.path.abspath(directory)
    raise FileNotFoundError("penstock/penstock.h is not installed; set PENSTOCK_INCLUDE_DIR to the folder that has it")


def read_header(directory):
    with open(os.path.join(directory, "penstock", "penstock.h"), encoding="utf-8") as file:
        return Header(file.read())


def make():
    """Returns the builder of the module."""
    include = include_directory()
    header = read_header(include)
    library = os.environ.get("PENSTOCK_LIBRARY_DIR") or pkg_config("--variable=libdir")
    builder = FFI()
    builder.cdef(declarations(header))
    builder.set_source("penstock._native", source(header), libraries=["penstock"], include_dirs=[include],
                       library_dirs=[library] if library else [], depends=[OPERATION], py_limited_api=True)
    return builder


ffibuilder = make()
