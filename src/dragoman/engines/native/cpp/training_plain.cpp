#include "training_table.h"

const dragoman::TrainingKernels* dragoman::plain_training() { return training_table(); }
