#include "copying/copier.h"

#include <gtest/gtest.h>
