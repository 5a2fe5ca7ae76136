#include "training_table.h"

const dragoman::TrainingKernels* dragoman::avx512_training() { return training_table(); }
