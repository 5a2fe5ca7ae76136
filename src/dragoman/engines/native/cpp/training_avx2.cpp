#include "training_table.h"

const dragoman::TrainingKernels* dragoman::avx2_training() { return training_table(); }
