"""Test which symbols of the process a compiled kernel needs, as its LLVM module tells them."""

from __future__ import annotations

from kafkalog.records.kernels.store import results


def test_symbols_of_a_module() -> None:
    text = """
    target triple = "x86_64-unknown-linux-gnu"
@PyExc_TypeError = external global i8
@"quoted.name" = external constant i8, align 1
@.const.here = internal constant [5 x i8] c"@no()\\00"
declare i8* @PyLong_FromLongLong(i64) local_unnamed_addr
declare noalias nonnull i8* @"NRT_Free"(i8*, i32 (i8*)*)
declare void @llvm.memcpy.p0i8.p0i8.i64(i8*, i8*, i64, i1)
define i32 @defined(i8* %0) {
  %1 = call i8* @called(i64 0)
}
"""
    assert results.external_symbols(text) == ("NRT_Free", "PyExc_TypeError", "PyLong_FromLongLong", "quoted.name")
