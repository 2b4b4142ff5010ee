"""Tests xdrgen's output, and its messages for invalid definitions."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import check
import emit
import parse
import xdrgen
from model import XdrError


def generate(text):
    return emit.emit(check.Scope(parse.parse("namespace t;\n" + text)), pathlib.Path("t.x"))


class Mapping(unittest.TestCase):
    def assertMember(self, declaration, cpp, before=""):
        self.assertIn(f"  {cpp};\n", generate(f"{before} struct s {{ {declaration}; }};"))

    def test_maps_numbers_to_cpp_types(self):
        self.assertMember("int a", "int32_t a{}")
        self.assertMember("unsigned int a", "uint32_t a{}")
        self.assertMember("unsigned a", "uint32_t a{}")
        self.assertMember("hyper a", "int64_t a{}")
        self.assertMember("unsigned hyper a", "uint64_t a{}")
        self.assertMember("double a", "double a{}")

    def test_structs_contain_short_opaque_data_and_refer_to_long_data(self):
        self.assertMember("opaque a[8]", "std::array<std::byte, 8> a{}")
        self.assertMember("opaque a<128>", "xdr::Opaque<128> a{}")
        self.assertMember("opaque a<129>", "xdr::OpaqueView<129> a{}")
        self.assertMember("opaque a<>", "xdr::OpaqueView<xdr::kUnbounded> a{}")
        self.assertMember("string a<255>", "xdr::StringView<255> a{}")

    def test_maps_ddp_to_a_payload(self):
        self.assertMember("ddp opaque a<>", "xdr::Payload<xdr::kUnbounded> a{}")
        self.assertMember("ddp string a<1024>", "xdr::Payload<1024> a{}")

    def test_maps_arrays_and_optionals(self):
        self.assertMember("int a[3]", "std::array<int32_t, 3> a{}")
        self.assertMember("int a<N>", "xdr::Vector<int32_t, N> a{}", "const N = 0x10;")
        self.assertMember("int *a", "std::optional<int32_t> a{}")

    def test_a_bound_may_be_an_enumerator(self):
        self.assertMember("opaque a<LIMIT>", "xdr::Opaque<12> a{}", "enum e { LIMIT = 12 };")

    def test_constants_have_the_smallest_type_and_a_suffix_if_only_uint64_holds_them(self):
        self.assertIn("inline constexpr uint32_t N = 4294967295;", generate("const N = 0xffffffff;"))
        self.assertIn("inline constexpr uint64_t N = 4294967296;", generate("const N = 0x100000000;"))
        self.assertIn("inline constexpr uint64_t N = 18446744073709551615u;", generate("const N = 0xffffffffffffffff;"))

    def test_maps_linked_structs_to_a_list_without_links(self):
        text = generate("struct s { node *all; }; struct node { int a; node *next; };")
        self.assertIn("xdr::List<node> all{};", text)
        self.assertNotIn("next", text)

    def test_a_typedef_may_link_the_structs_of_a_list(self):
        text = generate("typedef node *nodes; struct node { int a; nodes next; };")
        self.assertIn("using nodes = xdr::List<node>;", text)

    def test_a_bool_with_one_arm_is_an_optional(self):
        text = generate("union u switch (bool set) { case TRUE: int a; default: void; };")
        self.assertIn("using u = std::optional<int32_t>;", text)

    def test_a_bool_with_two_arms_is_a_union(self):
        text = generate("union u switch (bool b) { case TRUE: int a; case FALSE: hyper c; };")
        self.assertIn("xdr::Union<u, bool, int32_t, int64_t>", text)

    def test_void_arms_share_one_arm(self):
        text = generate("enum e { A = 0, B = 1, C = 2 }; union u switch (e d) { case A: void; case B: int i; default: void; };")
        self.assertIn("xdr::Union<u, e, xdr::Void, int32_t>", text)
        self.assertIn("default:\n        return 0;", text)

    def test_defines_types_before_their_use(self):
        text = generate("struct a { b m; }; struct b { int i; };")
        self.assertLess(text.index("struct b {"), text.index("struct a {"))

    def test_members_may_have_the_names_of_types_and_keywords(self):
        self.assertMember("b b", "::penstock::t::b b{}", "struct b { int i; };")
        self.assertMember("int delete", "int32_t delete_{}")

    def test_an_enum_without_zero_starts_with_its_first_value(self):
        self.assertMember("e a", "e a{e::ONE}", "enum e { ONE = 1 };")

    def test_names_nested_bodies_after_their_place(self):
        self.assertMember("struct { int x; } inner", "s_inner inner{}")

    def test_maps_procedures(self):
        text = generate("program P { version V { void NULLPROC(void) = 0; hyper GET(int) = 1; } = 2; } = 0x20000000;")
        self.assertIn("inline constexpr uint32_t P = 536870912;", text)
        self.assertIn("using Arguments = int32_t;\n  using Results = int64_t;", text)
        self.assertIn("using V_procedures = xdr::ProcedureList<NULLPROC, GET>;", text)


class Mistakes(unittest.TestCase):
    def assertMistake(self, text, line, message):
        with self.assertRaises(XdrError) as caught:
            generate(text)
        # generate() adds one line before.
        self.assertEqual((caught.exception.line - 1, caught.exception.message), (line, message))

    def test_reports_syntax_errors(self):
        self.assertMistake("struct s {\n int a\n};", 3, "unexpected '}'; expected ';', '<', '['")
        self.assertMistake("const A = 1;\n$", 2, "unexpected character '$'")
        self.assertMistake("const A", 1, "unexpected the end of the file; expected '='")
        self.assertMistake("const A = 09;", 1, "'09' is not a number")

    def test_reports_invalid_names(self):
        self.assertMistake("struct s {\n nothing a; };", 2, "unknown type 'nothing'")
        self.assertMistake("struct s {\n int a<N>; };", 2, "unknown constant 'N'")
        self.assertMistake("const A = 1;\nconst A = 2;", 2, "'A' is already defined, at line 2")
        self.assertMistake("struct s { int a;\n int a; };", 2, "a second member 'a'")
        with self.assertRaisesRegex(XdrError, "no 'namespace <name>;'"):
            check.Scope(parse.parse("const A = 1;"))

    def test_reports_invalid_enums(self):
        self.assertMistake("enum e { A = 0,\n B = 0 };", 2, "'B' has the value of 'A'")
        self.assertMistake("enum e { A = 0x80000000 };", 1, "'A' does not fit into 32 bits")

    def test_reports_invalid_unions(self):
        enum = "enum e { A = 0, B = 1 };"
        self.assertMistake(f"{enum} union u switch (e d) {{ case A: void;\n case A: int a; }};", 2, "a second case 'A'")
        self.assertMistake(f"{enum} union u switch (e d) {{ case C: void; }};", 1, "'C' is no value of 'e'")
        self.assertMistake(
            "union u switch (hyper d) { case 1: void; };",
            1,
            "union 'u' switches on 'hyper', which is no integer, enum or bool",
        )
        self.assertMistake(
            "union u switch (int d) { case 0x80000000: void; };", 1, "case 2147483648 does not fit into the discriminant"
        )

    def test_reports_types_that_contain_themselves(self):
        self.assertMistake("struct a { b m; };\nstruct b { a *m; int i; };", 2, "'a' contains itself (a -> b -> a)")
        self.assertMistake(
            "struct s { s *next;\n int a; };", 1, "'next' links to its own type: it must be the last member"
        )
        self.assertMistake("struct s { s *next; };", 1, "'s' has nothing but its link")

    def test_reports_unsupported_declarations(self):
        self.assertMistake("struct s { opaque a[4294967296]; };", 1, "'a': a length of 4294967296 is not possible")
        self.assertMistake("struct s { ddp opaque a[8]; };", 1, "'a': ddp needs a variable length, opaque<> or string<>")
        # RFC 8166 §3.4.4.3: an arm of a union may be DDP-eligible, the union itself is not.
        self.assertMistake(
            "union u switch (int d) { case 0: int a; };\nstruct s { ddp u b; };",
            2,
            "unexpected 'u'; expected 'opaque', 'string'",
        )
        self.assertMistake("struct s { quadruple a; };", 1, "quadruple is not supported")

    def test_reports_invalid_programs(self):
        self.assertMistake(
            "program P { version V { void A(void) = 0;\n void B(void) = 0; } = 1; } = 1;", 2, "a second procedure 0"
        )
        self.assertMistake(
            "program P { version V { void A(int, int) = 0; } = 1; } = 1;",
            1,
            "procedure A has 2 arguments; put them into a struct",
        )


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_imported_types_keep_their_namespace(self):
        self.write("base.x", "namespace one; const N = 4; struct handle { opaque data<N>; };")
        path = self.write("user.x", "namespace two; import base; struct s { handle h; int a<N>; };")
        text = emit.emit(xdrgen.load(path), path)
        self.assertIn("  ::penstock::one::handle h{};", text)
        self.assertIn("xdr::Vector<int32_t, 4> a{};", text)
        self.assertIn(f'#include "{self.folder.name}/base.h"', text)
        self.assertNotIn("struct handle", text)

    def test_reports_the_line_of_a_failed_import(self):
        path = self.write("user.x", "namespace two;\nimport base;")
        with self.assertRaisesRegex(XdrError, "there is no base.x beside user.x"):
            xdrgen.load(path)
        self.write("base.x", "namespace one;\n\nstruct s { what a; };")
        with self.assertRaisesRegex(XdrError, "in base.x, line 3: unknown type 'what'"):
            xdrgen.load(path)
        self.write("base.x", "namespace one; import user;")
        with self.assertRaisesRegex(XdrError, "user.x imports itself"):
            xdrgen.load(path)

    def test_the_command_reports_file_and_line(self):
        path = self.write("wrong.x", "namespace w;\nstruct s { what a; };")
        output = self.folder / "out" / "wrong.h"
        run = subprocess.run(
            [sys.executable, pathlib.Path(xdrgen.__file__), path, output], capture_output=True, text=True, check=False
        )
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, f"{path}:2: error: unknown type 'what'\n")
        self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main()
