// Adam (Kingma and Ba, arXiv 1412.6980) with L2 regularisation, as PyTorch's torch.optim.Adam:
//   g += wd*p;  m = b1*m + (1-b1)*g;  v = b2*v + (1-b2)*g*g;  p -= lr * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
train.optimizer @adam
    hyper {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, lr = 1.0e-3, weight_decay = 0.0}
    state ["exp_avg", "exp_avg_sq"] {
  func.func @scalars(%t: i64, %beta1: f64, %beta2: f64, %eps: f64, %lr: f64, %wd: f64)
      -> (f32, f32, f32, f32, f32, f32, f32, f32, f32) {
    %one = arith.constant 1.0 : f64
    %rest1 = arith.subf %one, %beta1 : f64
    %rest2 = arith.subf %one, %beta2 : f64
    %power1 = math.fpowi %beta1, %t : f64, i64
    %power2 = math.fpowi %beta2, %t : f64, i64
    %correction1 = arith.subf %one, %power1 : f64
    %correction2 = arith.subf %one, %power2 : f64
    %0 = arith.truncf %wd : f64 to f32
    %1 = arith.truncf %beta1 : f64 to f32
    %2 = arith.truncf %rest1 : f64 to f32
    %3 = arith.truncf %beta2 : f64 to f32
    %4 = arith.truncf %rest2 : f64 to f32
    %5 = arith.truncf %correction1 : f64 to f32
    %6 = arith.truncf %correction2 : f64 to f32
    %7 = arith.truncf %eps : f64 to f32
    %8 = arith.truncf %lr : f64 to f32
    return %0, %1, %2, %3, %4, %5, %6, %7, %8 : f32, f32, f32, f32, f32, f32, f32, f32, f32
  }
  func.func @update(%p: f32, %grad: f32, %m: f32, %v: f32, %wd: f32, %beta1: f32, %rest1: f32, %beta2: f32, %rest2: f32,
                    %correction1: f32, %correction2: f32, %eps: f32, %lr: f32) -> (f32, f32, f32) {
    %l2 = arith.mulf %wd, %p : f32
    %g = arith.addf %grad, %l2 : f32
    %m1 = arith.mulf %beta1, %m : f32
    %m2 = arith.mulf %rest1, %g : f32
    %m3 = arith.addf %m1, %m2 : f32
    %v1 = arith.mulf %beta2, %v : f32
    %v2 = arith.mulf %rest2, %g : f32
    %v3 = arith.mulf %v2, %g : f32
    %v4 = arith.addf %v1, %v3 : f32
    %mhat = arith.divf %m3, %correction1 : f32
    %vhat = arith.divf %v4, %correction2 : f32
    %root = math.sqrt %vhat : f32
    %den = arith.addf %root, %eps : f32
    %scaled = arith.mulf %lr, %mhat : f32
    %delta = arith.divf %scaled, %den : f32
    %p1 = arith.subf %p, %delta : f32
    return %p1, %m3, %v4 : f32, f32, f32
  }
}
