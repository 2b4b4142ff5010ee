/**
 * @file
 * What all headers of libpenstock share: the mark of exported functions.
 */
#ifndef PENSTOCK_API_H
#define PENSTOCK_API_H

#ifdef __cplusplus
/** Begins declarations of C. */
#define PENSTOCK_BEGIN_DECLS extern "C" {
/** Ends them. */
#define PENSTOCK_END_DECLS }
#else
#define PENSTOCK_BEGIN_DECLS
#define PENSTOCK_END_DECLS
#endif

/** Marks a function that libpenstock exports. */
#if defined(__GNUC__)
#define PENSTOCK_API __attribute__((visibility("default")))
#else
#define PENSTOCK_API
#endif

#endif
