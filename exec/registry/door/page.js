'use strict';
// A form with options asks a passkey before it is sent.
for (const form of document.querySelectorAll('form[data-options]')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const say = form.querySelector('output');
    try {
      if (!window.PublicKeyCredential || !PublicKeyCredential.parseCreationOptionsFromJSON) {
        throw new Error('This browser is too old for passkeys.');
      }
      const options = JSON.parse(form.dataset.options);
      const made = form.dataset.create
        ? await navigator.credentials.create({publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options)})
        : await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options)});
      form.elements.answer.value = JSON.stringify(made.toJSON());
      form.submit();
    } catch (problem) {
      say.textContent = problem.message;
    }
  });
}
// The secret of a link stands behind the #, which browsers send to no server.
const link = document.querySelector('form[data-link]');
if (link && location.hash.length > 1) {
  link.elements.link.value = location.hash.slice(1);
  history.replaceState(null, '', location.pathname);
}
