/**
 * @file
 * The NFS client of libpenstock for C++20. All of it is in headers, above the C API (penstock/penstock.h).
 *
 * @code
 * penstock::Runtime runtime = penstock::Runtime::Make().value();
 * penstock::Mount mount = penstock::Mount::Open(runtime, "nfs://server/export").Get().value();
 * std::string text = mount.ReadFile("notes.txt").Get().value();
 * @endcode
 *
 * Methods that ask a server return an Operation, which can be waited for in several ways. Results are a Result.
 */
#ifndef PENSTOCK_PENSTOCK_HPP
#define PENSTOCK_PENSTOCK_HPP

#include "penstock/attributes.hpp"
#include "penstock/file.hpp"
#include "penstock/listing.hpp"
#include "penstock/mount.hpp"
#include "penstock/operation.hpp"
#include "penstock/result.hpp"
#include "penstock/runtime.hpp"
#include "penstock/runtime_options.hpp"
#include "penstock/task.hpp"
#include "penstock/when_all.hpp"

#endif
